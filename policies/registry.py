"""The published policies by name and version."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from matrices import Plan, PolicyRef
from policies.evidence import Evidence
from policies.model import PolicyError, Verdict

if TYPE_CHECKING:
    from policies.binomial_v1_planning import Reach

Prospector: TypeAlias = "Callable[[Plan], Reach | None]"
Reducer: TypeAlias = Callable[[Plan, Evidence], Verdict]

_MODULES: Mapping[str, str] = {
    "strict/1": "policies.strict_v1",
    "strict/2": "policies.strict_v2",
    "binomial/1": "policies.binomial_v1",
}
"""Loaded on use: the exact tests need scipy, the thresholds do not."""

_PLANNING: Mapping[str, str] = {"binomial/1": "policies.binomial_v1_planning"}


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


def planning(name: str) -> Prospector:
    """What checks a plan under the policy called `name`: `None` where it states no power."""
    if name in _PLANNING:
        return cast("Prospector", import_module(_PLANNING[name]).check)
    return _no_prospect


def _no_prospect(_plan: Plan) -> None:
    """Thresholds state no error rate, so no power either."""


def complete(name: str, given: Mapping[str, str]) -> PolicyRef:
    """The policy with every parameter written out: what was given, and the declared defaults.

    Raises:
        PolicyError: the policy is not published, or a parameter is unknown or not usable.
    """
    reducer(name)
    return PolicyRef(name=name, parameters=import_module(_MODULES[name]).parameters(given))


def reduce(plan: Plan, evidence: Evidence, policy: PolicyRef | None = None) -> Verdict:
    """The verdict of the plan's own policy, or of another one on the same records."""
    if policy is None or policy == plan.policy:
        return reducer(plan.policy.name)(plan, evidence)
    other = plan.model_copy(update={"policy": policy})
    verdict = reducer(policy.name)(other, evidence)
    return verdict.model_copy(update={"plan": plan.digest()})
