"""The worlds of a plan: what the slot host needs to know of every condition and every trial."""

from collections.abc import Sequence
from typing import NamedTuple

from matrices import Condition, Plan, Trial, trial_seed
from reproduce.environments import Built, find_python
from reproduce.executors.model import Order, World
from reproduce.knobs import WorldDraft, apply_knobs
from reproduce.matching import keep_files
from reproduce.planning.placeholders import fill_python, unescaped
from reproduce.state import State


class Worlds(NamedTuple):
    """One world for each condition of a plan, in the plan's order."""

    plan: Plan
    worlds: tuple[World, ...]
    drafts: tuple[WorldDraft, ...]

    def order(self, trial: Trial, *, attempt: int) -> Order:
        """What is asked of an executor for one attempt of a trial."""
        draft = self.drafts[trial.condition]
        seed = draft.seed
        if seed is None:
            seed = trial_seed(self.plan.seed, trial.number)
        delay = self.plan.budget.min_delay_us
        if delay:
            delay = trial_seed(self.plan.seed, trial.number, stream="delay") % (delay + 1)
        values = draft.trial_values(seed=self.plan.seed, number=trial.number)
        return Order(*trial, attempt=attempt, seed=seed, delay_us=delay, values=values)


def worlds_of(plan: Plan, state: State, environments: Sequence[Built]) -> Worlds:
    """The worlds of a plan whose environments are built, in the order of the plan's."""
    files = keep_files(plan.symptoms)
    drafts = tuple(_draft(condition, environments) for condition in plan.conditions)
    worlds = tuple(
        draft.world(
            timeout_us=condition.timeout_us,
            tree=_tree(plan, condition, state, environments),
            keep_files=files,
        )
        for condition, draft in zip(plan.conditions, drafts, strict=True)
    )
    return Worlds(plan, worlds, drafts)


def _tree(
    plan: Plan, condition: Condition, state: State, environments: Sequence[Built]
) -> str | None:
    if condition.environment is not None:
        built = environments[condition.environment].tree
        if built is not None:
            return str(built)
    return str(state.trees / plan.source.tree) if plan.source.tree else None


def _draft(condition: Condition, environments: Sequence[Built]) -> WorldDraft:
    variables = {setting.name: setting.value for setting in condition.env}
    path = variables.get("PATH", "")
    if condition.environment is None:
        python = _python(condition, path)
    else:
        built = environments[condition.environment]
        python = str(built.python)
        variables["PATH"] = f"{built.bin}:{path}" if path else str(built.bin)
        variables["VIRTUAL_ENV"] = str(built.bin.parent)
    draft = WorldDraft(
        argv=[fill_python(part, python) for part in condition.cmd],
        env={name: fill_python(value, python) for name, value in variables.items()},
    )
    apply_knobs(condition.knobs, draft)
    return draft


def _python(condition: Condition, path: str) -> str:
    """The interpreter that `{python}` stands for, looked for only where the condition names it."""
    named = any("{python}" in text for text in (*condition.cmd, *(v.value for v in condition.env)))
    return str(find_python(unescaped(path)).path) if named else ""
