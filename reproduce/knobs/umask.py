"""`umask`: which permissions new files lack."""

from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from reproduce.knobs.model import Knob, WorldDraft, loaded


class Umask(Knob):
    """The file mode creation mask, in octal digits."""

    name = "umask"
    summary = "the permissions that new files lack"
    rule = "three octal digits as text"
    example = '"077"'
    mechanism = "umask(2) around the start of the command"
    schema = TypeAdapter(Annotated[str, StringConstraints(pattern=r"\A0?[0-7]{3}\z")])
    neutral = '"022"'

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Sets the mask."""
        draft.umask = int(loaded(value), 8)
