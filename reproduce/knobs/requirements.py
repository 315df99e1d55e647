"""`requirements`: which environment the command runs in."""

from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from reproduce.knobs.model import Knob, WorldDraft


class Requirements(Knob):
    """A requirements file for this level, in place of the one in `[run]`.

    Planning puts its text into the plan and the engine builds it once; the world of the trials
    then begins with its `bin`, so nothing is left to apply.
    """

    name = "requirements"
    summary = "the requirements file of the environment"
    rule = "the path of a requirements file"
    example = '"requirements-old.txt"'
    mechanism = "a virtual environment for each distinct content, leading PATH"
    schema = TypeAdapter(
        Annotated[str, StringConstraints(pattern=r"\A[^\x00]+\z", max_length=4096)]
    )

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Leaves the draft as it is."""
