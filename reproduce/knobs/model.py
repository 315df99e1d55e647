"""What every knob offers: a schema, a probe, its application and its evidence."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from matrices import CanonicalError, Json, canonical_bytes
from reproduce.errors import UsageError
from reproduce.executors.model import World

TrialValue: TypeAlias = Callable[[int, int], str]
"""The text of a placeholder, from the plan's seed and the number of the trial."""

PER_TRIAL = "per-trial"
"""The value of a knob that takes another value in each trial, from the plan's stream."""


class Availability(NamedTuple):
    """Whether a knob, or one value of it, can be applied on this host, how, or why not."""

    available: bool
    mechanism: str
    why: str = ""


class Evidence(NamedTuple):
    """Whether a knob took in a trial, and what the child had."""

    applied: bool
    shown: str


@dataclass(slots=True)
class WorldDraft:
    """The world of a condition while knobs are applied to it."""

    argv: list[str]
    env: dict[str, str]
    umask: int = 0o022
    seed: int | None = None
    """The seed of every trial; `None` where each trial has its own."""
    evidence: list[str] = field(default_factory=list)
    values: dict[str, TrialValue] = field(default_factory=dict)
    """Placeholders that differ between trials."""

    def world(self, *, timeout_us: int, tree: str | None, keep_files: Sequence[str]) -> World:
        """The finished world."""
        return World(
            argv=tuple(self.argv),
            env=dict(self.env),
            timeout_us=timeout_us,
            umask=self.umask,
            tree=tree,
            keep_files=tuple(keep_files),
            evidence=tuple(self.evidence),
        )

    def trial_values(self, *, seed: int, number: int) -> dict[str, str]:
        """The placeholders of one trial, from the plan's seed and the trial's number."""
        return {name: value(seed, number) for name, value in self.values.items()}


class Knob(ABC):
    """Something about the world that a level sets.

    Values travel as canonical JSON text, which `parse` makes of what a file declares.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What it sets, in one line."""
    rule: ClassVar[str]
    """What a value must be."""
    example: ClassVar[str]
    """A value as a TOML file spells it."""
    mechanism: ClassVar[str]
    """How it reaches the child."""
    schema: ClassVar[TypeAdapter[Any]]
    neutral: ClassVar[str | None] = None
    """The value that changes nothing for a program; `None` where that is to leave the knob out."""
    wraps: ClassVar[bool] = False
    """Whether it puts something around the command, which then must be around every arm's."""
    evidence_file: ClassVar[str | None] = None
    """The file that it leaves in `{knobs}`; without one, its construction is its evidence."""

    def parse(self, value: object, *, place: str) -> str:
        """The canonical JSON text of a declared value.

        Raises:
            UsageError: the value breaks the knob's rule.
        """
        try:
            checked: Json = self.schema.validate_python(value, strict=True)
            text = canonical_bytes(checked).decode("utf-8")
        except (ValidationError, CanonicalError, UnicodeEncodeError) as error:
            message = f"knob `{self.name}` cannot take {_shown(value)}: {self.rule}"
            hint = f"write `{self.name} = {self.example}`"
            raise UsageError(message, place=place, hint=hint) from error
        self.check(text, place=place)
        return text

    def check(self, value: str, *, place: str) -> None:  # noqa: B027 - most schemas say it all
        """Refuses a value that fits the schema and still means nothing.

        Raises:
            UsageError: says which value and what is near it.
        """

    def probe(self, value: str | None = None) -> Availability:  # noqa: ARG002 - some values differ
        """Whether the knob, or this value of it, can be applied on this host."""
        return Availability(available=True, mechanism=self.mechanism)

    @abstractmethod
    def apply(self, value: str, draft: WorldDraft) -> None:
        """Edits the draft so that its trials run with this value."""

    def evidence(self, value: str, reported: Mapping[str, str]) -> Evidence:  # noqa: ARG002
        """What the child had, from the files in `{knobs}`."""
        return Evidence(applied=True, shown=value)


def loaded(value: str) -> Any:
    """What a canonical JSON text says; its shape was checked by the knob that wrote it."""
    return json.loads(value)


def literal(text: str) -> str:
    """Text in which no brace is taken for a placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def _shown(value: object) -> str:
    shown = repr(value)
    return f"`{shown[:80]}…`" if len(shown) > 80 else f"`{shown}`"  # noqa: PLR2004 - a line
