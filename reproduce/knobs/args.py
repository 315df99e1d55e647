"""`args`: further arguments."""

from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter

from reproduce.knobs.model import Knob, WorldDraft, loaded

_Text = Annotated[str, StringConstraints(pattern=r"\A[^\x00]*\z")]


class Args(Knob):
    """Arguments at the end of the command; they may hold placeholders."""

    name = "args"
    summary = "arguments at the end of the command"
    rule = "an array of texts"
    example = '["--workers", "8"]'
    mechanism = "the arguments that the command starts with"
    schema = TypeAdapter(Annotated[list[_Text], Field(max_length=1000)])

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Appends the arguments."""
        draft.argv.extend(loaded(value))
