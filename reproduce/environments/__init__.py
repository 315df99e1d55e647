"""Environments: a requirements file and set-up commands, built once for each distinct content."""

from reproduce.environments.building import Built, build, verify_environment
from reproduce.environments.declared import requirements_text
from reproduce.environments.interpreters import Interpreter, find_python

__all__ = [
    "Built",
    "Interpreter",
    "build",
    "find_python",
    "requirements_text",
    "verify_environment",
]
