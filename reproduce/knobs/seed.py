"""`seed`: the seed that a trial is given."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from matrices.record import MAX_INTEGER
from reproduce.knobs.model import PER_TRIAL, Knob, WorldDraft, loaded


class Seed(Knob):
    """`{seed}` and `REPRODUCE_SEED`: one number for all trials, or the plan's for each."""

    name = "seed"
    summary = "the seed in `{seed}` and REPRODUCE_SEED"
    rule = f'an integer from 0 to {MAX_INTEGER}, or "{PER_TRIAL}"'
    example = "42"
    mechanism = "the seed that the trial is given"
    schema = TypeAdapter(Annotated[int, Field(ge=0, le=MAX_INTEGER)] | Literal["per-trial"])
    neutral = f'"{PER_TRIAL}"'

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Fixes the seed of the trials, or leaves each its own."""
        seed = loaded(value)
        draft.seed = None if seed == PER_TRIAL else seed
