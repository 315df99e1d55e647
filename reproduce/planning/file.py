"""The investigation file: its closed schema, read from TOML or JSON."""

import json
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from matrices import Name
from matrices.symptoms import ExitCode, Stream
from reproduce.errors import UsageError
from reproduce.planning.messages import explain

MAX_FILE_BYTES = 1024 * 1024
"""Larger than any investigation a person writes; keeps a wrong path from filling memory."""

FACTORS = "factor.*"
"""Stands for all factors of `[matrix]`; holds a character that no name may hold."""

SYMPTOMS = "symptom.*"
"""Stands for all tables `[symptom.NAME]`."""

_SECOND_US = 1_000_000

_MOST_SECONDS = 10**7
"""A time of four months: longer than anybody waits, and far below what microseconds can hold."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _microseconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        message = "a number of seconds is expected"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns ValueError into a place
    seconds = Decimal(value)
    # Compared before it is scaled: `1e999999` would overflow.
    if not seconds.is_finite() or not 0 <= seconds <= _MOST_SECONDS:
        message = f"a number of seconds from 0 to {_MOST_SECONDS} is expected"
        raise ValueError(message)
    scaled = seconds * _SECOND_US
    if scaled != scaled.to_integral_value():
        message = "a number of seconds has at most six decimals"
        raise ValueError(message)
    return int(scaled)


Seconds: TypeAlias = Annotated[
    int,
    BeforeValidator(_microseconds),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": _MOST_SECONDS}),
]
"""Written in seconds, kept in microseconds."""


def _decimal_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        message = 'a decimal is expected, such as "0.05"'
        raise ValueError(message)  # noqa: TRY004 - pydantic turns ValueError into a place
    return str(value)


DecimalText: TypeAlias = Annotated[
    str, BeforeValidator(_decimal_text), WithJsonSchema({"type": ["string", "number"]})
]
"""A decimal kept as the text it was written in."""


class GitSource(_Table):
    """A revision of a repository."""

    git: str
    rev: str


class RunTable(_Table):
    """What runs, and where."""

    cmd: tuple[str, ...] = Field(min_length=1)
    timeout_s: Seconds
    source: str | GitSource = "."
    sandbox: Literal["process", "bwrap", "docker"] = "process"
    image: str | None = None
    requirements: str | None = None
    inherit: tuple[str, ...] = ("PATH",)
    setup: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    seed: int | None = Field(default=None, ge=0, lt=2**53)


class _SymptomTable(_Table):
    primary: bool = False


class ExitCodeTable(_SymptomTable):
    """The exit code tells."""

    kind: Literal["exit-code"]
    matched: tuple[ExitCode, ...] = Field(min_length=1)
    clean: tuple[ExitCode, ...] = Field(min_length=1)
    declared: bool = True


class OutputTable(_SymptomTable):
    """A pattern in the output tells."""

    kind: Literal["output"]
    pattern: str
    stream: Annotated[Stream, Field(strict=False)] = Stream.ANY
    exit: tuple[ExitCode, ...] = ()
    clean: str | None = None
    clean_exit: tuple[ExitCode, ...] = ()


class TimeoutTable(_SymptomTable):
    """The time limit tells."""

    kind: Literal["timeout"]
    alive: str
    stream: Annotated[Stream, Field(strict=False)] = Stream.ANY
    clean: tuple[ExitCode, ...] = Field(min_length=1)


class JunitTable(_SymptomTable):
    """A case in a JUnit report tells."""

    kind: Literal["junit"]
    test: str
    message: str
    file: str = "junit.xml"


class DurationTable(_SymptomTable):
    """The duration tells."""

    kind: Literal["duration"]
    longer_than_s: Seconds
    exit: tuple[ExitCode, ...] = Field(default=(0,), min_length=1)


SymptomTable: TypeAlias = Annotated[
    ExitCodeTable | OutputTable | TimeoutTable | JunitTable | DurationTable,
    Field(discriminator="kind"),
]

Levels: TypeAlias = dict[Name, dict[str, Any]]
ArmTable: TypeAlias = dict[Name, str | tuple[str, ...]]
Partial: TypeAlias = dict[Name, str | tuple[str, ...]]


class MatrixTable(_Table):
    """Factors with their levels, and corrections to their product."""

    factors: dict[Name, Levels] = Field(min_length=1, alias="factor.*")
    include: tuple[Partial, ...] = ()
    exclude: tuple[Partial, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _gather_factors(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        rules = {key: value[key] for key in ("include", "exclude") if key in value}
        return {FACTORS: {k: v for k, v in value.items() if k not in rules}, **rules}


class ArmsTable(_Table):
    """The two arms, each a partial assignment."""

    treatment: ArmTable
    control: ArmTable


class BudgetTable(_Table):
    """How much may be spent."""

    trials: int | None = Field(default=None, ge=1, le=20_000_000)
    wall_s: Seconds | None = None
    parallel: int | None = Field(default=None, ge=1, le=1024)
    min_delay_s: Seconds = 0


class PolicyTable(BaseModel):
    """The policy, and its parameters under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, DecimalText]

    name: str


class InvestigationFile(_Table):
    """What a person declares."""

    version: Literal[1]
    title: str = Field(min_length=1, max_length=500)
    issue: str | None = Field(default=None, max_length=500)
    run: RunTable
    symptom: SymptomTable | None = None
    symptoms: dict[Name, SymptomTable] = Field(default={}, alias="symptom.*")
    matrix: MatrixTable
    arms: ArmsTable
    budget: BudgetTable = BudgetTable()
    policy: PolicyTable

    @model_validator(mode="before")
    @classmethod
    def _sort_symptoms(cls, value: object) -> object:
        """`[symptom]` is one symptom; `[symptom.NAME]` are several."""
        if not isinstance(value, dict):
            return value
        table = value.get("symptom")
        if not isinstance(table, dict) or "kind" in table or not table:
            return value
        if not all(isinstance(item, dict) for item in table.values()):
            return value
        return {**{k: v for k, v in value.items() if k != "symptom"}, SYMPTOMS: table}


def read_file(path: Path) -> InvestigationFile:
    """The investigation that the TOML or JSON file at `path` declares.

    Raises:
        UsageError: the file cannot be read or breaks the schema; names the place and the rule.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            message = f"the file is larger than {MAX_FILE_BYTES} bytes"
            raise UsageError(message, place=str(path), hint="is this the investigation file?")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        hint = "`reproduce init` writes one to start from"
        raise UsageError(str(error.strerror).lower(), place=str(path), hint=hint) from error
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8"
        raise UsageError("the file is not UTF-8 text", place=str(path), hint=hint) from error
    return parse(text, place=path.name, as_json=path.suffix == ".json")


def parse(text: str, *, place: str, as_json: bool = False) -> InvestigationFile:
    """The investigation that `text` declares; `place` names it in errors."""
    try:
        if as_json:
            value = json.loads(
                text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_unique
            )
        else:
            value = tomllib.loads(text, parse_float=Decimal)
    except ValueError as error:
        message = str(error)
        language = "JSON" if as_json else "TOML"
        hint = f"the file is not {language}: mend it at that place"
        raise UsageError(message[:1].lower() + message[1:], place=place, hint=hint) from error
    except (RecursionError, InvalidOperation) as error:
        message = "the file nests tables or writes a number beyond all measure"
        raise UsageError(message, place=place, hint="is this the investigation file?") from error
    try:
        return InvestigationFile.model_validate(_tuples(value))
    except ValidationError as error:
        raise explain(error, InvestigationFile, place=place) from error


def _no_number(text: str) -> None:
    message = f"`{text}` is not a number"
    raise ValueError(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        message = "a key stands twice in one object"
        raise ValueError(message)
    return table


def _tuples(value: object) -> object:
    """The value with tuples for lists, as the strict schema holds tuples."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
