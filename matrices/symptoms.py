"""What the bug looks like, and what a trial without it must positively show."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from matrices.factors import Name
from matrices.record import Natural, Record

ExitCode = Annotated[int, Field(ge=-64, le=255)]
"""How a command ended: its exit code, or a signal number written negative."""


class Stream(StrEnum):
    """Where a pattern is looked for."""

    STDOUT = "stdout"
    STDERR = "stderr"
    ANY = "any"


class ExitCodeSymptom(Record):
    """The exit code tells; both sets are written out and share no member."""

    kind: Literal["exit-code"] = "exit-code"
    name: Name = "symptom"
    matched: tuple[ExitCode, ...] = Field(min_length=1)
    clean: tuple[ExitCode, ...] = Field(min_length=1)
    declared: bool = True
    """False when `quick` chose 1 and 0 because nobody said what the symptom looks like."""


class OutputSymptom(Record):
    """A pattern in the output tells."""

    kind: Literal["output"] = "output"
    name: Name = "symptom"
    pattern: str
    stream: Stream = Stream.ANY
    exit: tuple[ExitCode, ...] = ()
    """The exits that go with the symptom; none written means any exit but 0."""
    clean: str | None = None
    clean_exit: tuple[ExitCode, ...] = ()


class TimeoutSymptom(Record):
    """The time limit tells, once the command has shown that it was alive."""

    kind: Literal["timeout"] = "timeout"
    name: Name = "symptom"
    alive: str
    stream: Stream = Stream.ANY
    clean: tuple[ExitCode, ...] = Field(min_length=1)


class JunitSymptom(Record):
    """A case in a JUnit report tells."""

    kind: Literal["junit"] = "junit"
    name: Name = "symptom"
    test: str
    message: str
    file: str = "junit.xml"
    """The report's path within `{out}`."""


class DurationSymptom(Record):
    """The duration tells, for a command that ended by itself with a declared exit."""

    kind: Literal["duration"] = "duration"
    name: Name = "symptom"
    longer_than_us: Natural
    exit: tuple[ExitCode, ...] = Field(min_length=1)


Symptom = Annotated[
    ExitCodeSymptom | OutputSymptom | TimeoutSymptom | JunitSymptom | DurationSymptom,
    Field(discriminator="kind"),
]
