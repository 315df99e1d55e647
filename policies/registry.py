"""The published policies by name and version."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias, cast

from matrices import Plan, PolicyRef
from policies.evidence import Evidence
from policies.model import PolicyError, Verdict

Reducer: TypeAlias = Callable[[Plan, Evidence], Verdict]

_MODULES: Mapping[str, str] = {
    "strict/1": "policies.strict_v1",
    "strict/2": "policies.strict_v2",
    "binomial/1": "policies.binomial_v1",
}
"""Loaded on use: the exact tests need scipy, the thresholds do not."""


def names() -> tuple[str, ...]:
    """The names of all published policies."""
    return tuple(_MODULES)


def reducer(name: str) -> Reducer:
    """The pure function of the policy called `name`.

    Raises:
        PolicyError: no such policy is published.
    """
    if name not in _MODULES:
        message = f"no policy is called `{name}`"
        hint = "policies: " + ", ".join(f"`{known}`" for known in _MODULES)
        raise PolicyError(message, place="policy.name", hint=hint)
    return cast("Reducer", import_module(_MODULES[name]).reduce)


def reduce(plan: Plan, evidence: Evidence, policy: PolicyRef | None = None) -> Verdict:
    """The verdict of the plan's own policy, or of another one on the same records."""
    if policy is None or policy == plan.policy:
        return reducer(plan.policy.name)(plan, evidence)
    other = plan.model_copy(update={"policy": policy})
    verdict = reducer(policy.name)(other, evidence)
    return verdict.model_copy(update={"plan": plan.digest()})
