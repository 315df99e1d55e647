"""`hash_seed`: how Python scatters sets of text."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from matrices import trial_seed
from reproduce.knobs.model import PER_TRIAL, Knob, WorldDraft, loaded

_LIMIT = 2**32
"""CPython takes seeds below this; 0 turns the scattering off."""


class HashSeed(Knob):
    """`PYTHONHASHSEED`: one number for all trials, or another for each.

    Python's own `random` is refused: what was not recorded cannot be run again. Interpreters that
    are started with `-E` or `-I` do not read it.
    """

    name = "hash_seed"
    summary = "the seed of Python's hashes of text, bytes and dates"
    rule = f'an integer from 0 to {_LIMIT - 1}, or "{PER_TRIAL}"'
    example = f'"{PER_TRIAL}"'
    mechanism = "PYTHONHASHSEED in the environment"
    schema = TypeAdapter(Annotated[int, Field(ge=0, lt=_LIMIT)] | Literal["per-trial"])
    neutral = "0"

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Sets the variable, by a placeholder where each trial has its own seed."""
        seed = loaded(value)
        if seed == PER_TRIAL:
            draft.env["PYTHONHASHSEED"] = "{hash_seed}"
            draft.values["hash_seed"] = _of_trial
        else:
            draft.env["PYTHONHASHSEED"] = str(seed)


def _of_trial(seed: int, number: int) -> str:
    return str(trial_seed(seed, number, stream="hash") % _LIMIT)
