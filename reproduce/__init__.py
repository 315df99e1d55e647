"""Reproduces flaky bugs as counted experiments and says what the runs prove."""

from pathlib import Path

from reproduce._origin import check_origin

check_origin(Path(__file__).resolve().parent.parent)

__version__ = "0.1.0"
