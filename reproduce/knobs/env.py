"""`env`: environment variables."""

from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter

from matrices import canonical_bytes
from reproduce.errors import UsageError
from reproduce.knobs.model import Knob, WorldDraft, loaded

RESERVED = "REPRODUCE_"
"""Names with this beginning tell a trial who it is."""

_Variable = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
_Text = Annotated[str, StringConstraints(pattern=r"\A[^\x00]*\z")]


class Env(Knob):
    """Variables on top of those of `[run]`; values may hold placeholders."""

    name = "env"
    summary = "environment variables"
    rule = "a table of names and texts"
    example = '{ WORKERS = "8" }'
    mechanism = "the environment that the command starts with"
    schema = TypeAdapter(Annotated[dict[_Variable, _Text], Field(max_length=1000)])

    def check(self, value: str, *, place: str) -> None:
        """Refuses the names that tell a trial who it is."""
        for name in loaded(value):
            if name.startswith(RESERVED):
                message = f"`{name}` is set by us for every trial"
                hint = f"choose a name that does not begin with `{RESERVED}`"
                raise UsageError(message, place=f"{place}.{name}", hint=hint)

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Sets the variables."""
        draft.env.update(loaded(value))


def merged(first: str, second: str, *, place: str) -> str:
    """The variables of two factors' levels together.

    Raises:
        UsageError: both set one variable.
    """
    one, other = loaded(first), loaded(second)
    for name in other:
        if name in one:
            message = f"two factors set the variable `{name}`"
            raise UsageError(message, place=place, hint="set each variable by one factor")
    return canonical_bytes({**one, **other}).decode("utf-8")
