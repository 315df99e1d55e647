"""Seals an investigation: resolves everything that is fixed before the first trial."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from matrices import (
    Budget,
    Condition,
    DurationSymptom,
    Environment,
    ExitCodeSymptom,
    Factor,
    JunitSymptom,
    Level,
    MatrixError,
    OutputSymptom,
    Plan,
    PolicyRef,
    Role,
    Setting,
    Source,
    SourceKind,
    Symptom,
    TimeoutSymptom,
    assign,
    canonical_bytes,
    contrasts_of,
    default_seed,
    expand,
    label,
)
from matrices.factors import Assignment, Pattern
from policies.model import PolicyError
from policies.registry import complete
from reproduce import knobs
from reproduce.environments import requirements_text
from reproduce.errors import UsageError
from reproduce.knobs.env import RESERVED
from reproduce.matching import compile_pattern
from reproduce.planning.file import (
    DurationTable,
    ExitCodeTable,
    GitSource,
    InvestigationFile,
    JunitTable,
    MatrixTable,
    OutputTable,
    RunTable,
    SymptomTable,
    TimeoutTable,
)
from reproduce.planning.messages import nearest
from reproduce.planning.placeholders import check_placeholders
from reproduce.state import State
from reproduce.trees import snapshot, snapshot_revision

RUN_KEYS = ("cmd", "timeout_s")
"""Keys of `[run]` that a level may override; everything else in a level is a knob."""

_RUN_EXAMPLES = {"cmd": 'cmd = ["python3", "probe.py"]', "timeout_s": "timeout_s = 2.5"}

MIN_TIMEOUT_US = 1000
"""Shorter limits end before any command can begin."""

DEFAULT_TRIALS = 60
"""Trials of a condition where the file says nothing: the policy's own default (DESIGN, section 8)."""


class Sealed(NamedTuple):
    """A plan, and what sealing found worth saying."""

    plan: Plan
    notes: tuple[str, ...] = ()


def seal(declared: InvestigationFile, *, folder: Path, state: State, place: str) -> Sealed:
    """The sealed plan of what was declared; paths resolve against `folder`.

    Stores the source tree in `state`. Reads the environment of the caller only for the names in
    `inherit`, whose values become part of the plan.

    Raises:
        UsageError: a rule is broken; names the place, the rule and the way out.
    """
    try:
        sealer = _Sealer(declared, folder=folder, state=state, place=place)
        return sealer.seal()
    except (MatrixError, PolicyError) as error:
        where = f"{place}: {error.place}" if error.place else place
        raise UsageError(str(error), place=where, hint=error.hint) from error
    except ValidationError as error:
        # What the file allows and a plan does not.
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        hint = "write a value that a plan can hold"
        raise UsageError(first["msg"].lower(), place=f"{place}: {where}", hint=hint) from error


class _Sealer:
    """One sealing: the declared file, and what resolves its names."""

    def __init__(
        self, declared: InvestigationFile, *, folder: Path, state: State, place: str
    ) -> None:
        self._file = declared
        self._folder = folder
        self._state = state
        self._place = place
        self._environments: list[Environment] = []
        self._notes: list[str] = []

    def seal(self) -> Sealed:
        run = self._file.run
        _refuse_other_sandboxes(run, self._at("run.sandbox"))
        symptoms, primary = self._symptoms()
        factors = self._factors()
        cells = expand(
            factors,
            include=_patterns(self._file.matrix.include),
            exclude=_patterns(self._file.matrix.exclude),
        )
        arms = assign(
            cells,
            factors,
            {
                Role.TREATMENT: _pattern(self._file.arms.treatment),
                Role.CONTROL: _pattern(self._file.arms.control),
            },
        )
        conditions = tuple(
            self._condition(cell, factors, role=role, stratum=stratum)
            for cell, role, stratum in zip(cells, arms.roles, arms.strata, strict=True)
        )
        around = knobs.with_neutral([condition.knobs for condition in conditions])
        plan = Plan(
            title=self._file.title,
            issue=self._file.issue,
            source=self._source(run),
            environments=tuple(self._environments),
            symptoms=symptoms,
            primary=primary,
            conditions=tuple(
                condition.model_copy(update={"knobs": settings})
                for condition, settings in zip(conditions, around, strict=True)
            ),
            contrasts=contrasts_of(arms.pairs),
            budget=self._budget(),
            policy=self._policy(),
            seed=run.seed or 0,
        )
        if run.seed is None:
            plan = plan.model_copy(update={"seed": default_seed(plan.digest())})
        return Sealed(plan, tuple(self._notes))

    def _at(self, key: str) -> str:
        return f"{self._place}: {key}"

    def _symptoms(self) -> tuple[tuple[Symptom, ...], str]:
        tables = dict(self._file.symptoms)
        if self._file.symptom is not None:
            tables = {"symptom": self._file.symptom}
        if not tables:
            message = "no symptom is declared"
            hint = "say what the bug looks like in `[symptom]`"
            raise UsageError(message, place=self._at("symptom"), hint=hint)
        primary = [name for name, table in tables.items() if table.primary]
        if len(tables) == 1:
            primary = list(tables)
        if len(primary) != 1:
            message = f"{len(tables)} symptoms are declared and {len(primary)} are primary"
            hint = "set `primary = true` in the one that the verdict is about"
            raise UsageError(message, place=self._at("symptom"), hint=hint)
        symptoms = tuple(
            symptom_of(table, name, place=self._at(self._symptom_key(name)))
            for name, table in tables.items()
        )
        return symptoms, primary[0]

    def _symptom_key(self, name: str) -> str:
        return "symptom" if self._file.symptom is not None else f"symptom.{name}"

    def _factors(self) -> tuple[Factor, ...]:
        return tuple(
            Factor(
                name=name,
                levels=tuple(
                    Level(
                        name=level,
                        settings=self._settings(table, self._at(f"matrix.{name}.{level}")),
                    )
                    for level, table in levels.items()
                ),
            )
            for name, levels in _declared_factors(self._file.matrix, self._at("matrix")).items()
        )

    def _settings(self, table: Mapping[str, Any], place: str) -> tuple[Setting, ...]:
        settings = []
        for key, value in table.items():
            at = f"{place}.{key}"
            if key in RUN_KEYS:
                text = _run_override(key, value, place=at)
            elif key in knobs.KNOBS:
                text = knobs.parse_knob(key, _lists(value), place=place).value
                _check_templates(key, value, place=at)
            else:
                message = f"no knob and no key of `[run]` that a level may set is called `{key}`"
                hint = nearest(key, [*knobs.KNOBS, *RUN_KEYS])
                raise UsageError(message, place=at, hint=hint)
            settings.append(Setting(name=key, value=text))
        return tuple(settings)

    def _condition(
        self, cell: Assignment, factors: Sequence[Factor], *, role: Role, stratum: str
    ) -> Condition:
        groups = [
            factor.level(choice.level).settings
            for choice, factor in zip(cell, factors, strict=True)
        ]
        own = [[item for item in group if item.name in RUN_KEYS] for group in groups]
        rest = [[item for item in group if item.name not in RUN_KEYS] for group in groups]
        override = {
            setting.name: json.loads(setting.value)
            for setting in knobs.merge_knobs(own, place=self._at("matrix"))
        }
        settings = knobs.merge_knobs(rest, place=self._at("matrix"))
        cmd = tuple(override.get("cmd", self._file.run.cmd))
        for index, part in enumerate(cmd):
            at = self._at(f"run.cmd[{index}]")
            if "\0" in part or not (part or index):
                message = "no command can hold a null character or begin with nothing"
                raise UsageError(message, place=at, hint="write a program and its arguments")
            check_placeholders(part, place=at)
        timeout_us = int(override.get("timeout_s", self._file.run.timeout_s))
        if timeout_us < MIN_TIMEOUT_US:
            message = "a time limit of at least 0.001 s is expected"
            raise UsageError(message, place=self._at("run.timeout_s"), hint="raise `timeout_s`")
        return Condition(
            name=label(cell),
            choices=cell,
            role=role,
            stratum=stratum,
            cmd=cmd,
            timeout_us=timeout_us,
            env=self._variables(),
            knobs=tuple(item for item in settings if item.name != "requirements"),
            environment=self._environment(settings),
        )

    def _variables(self) -> tuple[Setting, ...]:
        variables = {"LANG": "C.UTF-8"}
        for name in self._file.run.inherit:
            value = os.environ.get(name)
            if value is None:
                if name != "PATH":
                    self._note(f"`{name}` is to be inherited but is not set here")
                continue
            variables[name] = value.replace("{", "{{").replace("}", "}}")
        for name, value in self._file.run.env.items():
            at = self._at(f"run.env.{name}")
            _check_variable(name, value, place=at)
            check_placeholders(value, place=at)
            variables[name] = value
        return tuple(Setting(name=name, value=variables[name]) for name in sorted(variables))

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _environment(self, settings: Sequence[Setting]) -> int | None:
        """The position of the condition's environment, added to the plan's if it is new."""
        run = self._file.run
        declared = [json.loads(item.value) for item in settings if item.name == "requirements"]
        path = declared[0] if declared else run.requirements
        if path is None and not run.setup:
            return None
        text = None
        if path is not None:
            at = self._at("matrix" if declared else "run.requirements")
            text = requirements_text(self._folder / path, place=at, folder=self._folder)
        environment = Environment(requirements=text, setup=run.setup)
        if environment not in self._environments:
            self._environments.append(environment)
        return self._environments.index(environment)

    def _policy(self) -> PolicyRef:
        table = self._file.policy
        given = {name: str(value) for name, value in (table.__pydantic_extra__ or {}).items()}
        return complete(table.name, given)

    def _budget(self) -> Budget:
        table = self._file.budget
        if table.wall_s == 0:
            message = "a wall time above 0 is expected"
            raise UsageError(
                message, place=self._at("budget.wall_s"), hint="leave it out for none"
            )
        return Budget(
            trials=DEFAULT_TRIALS if table.trials is None else table.trials,
            wall_us=table.wall_s,
            parallel=table.parallel or os.cpu_count() or 1,
            min_delay_us=table.min_delay_s,
        )

    def _source(self, run: RunTable) -> Source:
        if run.source == "none":
            return Source(kind=SourceKind.NONE)
        place, store = self._at("run.source"), self._state.trees
        if isinstance(run.source, GitSource):
            kind = SourceKind.GIT
            repository = self._folder / run.source.git
            tree = snapshot_revision(repository, run.source.rev, store=store, place=place)
        else:
            kind = SourceKind.FOLDER
            tree = snapshot(self._folder / run.source, store=store, place=place)
        return Source(kind=kind, tree=tree.digest, revision=tree.revision, modified=tree.modified)


def _check_variable(name: str, value: str, *, place: str) -> None:
    if not name or "=" in name or "\0" in name + value:
        message = "this is not the name and value of a variable"
        hint = "a name has no `=`, and neither has a null character"
        raise UsageError(message, place=place, hint=hint)
    if name.startswith(RESERVED):
        message = f"`{name}` is set by us for every trial"
        hint = f"choose a name that does not begin with `{RESERVED}`"
        raise UsageError(message, place=place, hint=hint)


def _refuse_other_sandboxes(run: RunTable, place: str) -> None:
    if run.sandbox == "docker" and run.image is None:
        message = "the sandbox `docker` needs an image"
        raise UsageError(message, place=place, hint='add `image = "name@sha256:..."`')
    if run.sandbox != "process":
        message = f"the sandbox `{run.sandbox}` is not part of this version"
        hint = "use `process`, which encloses a trial's processes but not its network or files"
        raise UsageError(message, place=place, hint=hint)
    if run.image is not None:
        message = "an image is named, but the sandbox is `process`"
        raise UsageError(message, place=place, hint="remove `image`")


def symptom_of(table: SymptomTable, name: str, *, place: str) -> Symptom:
    """The symptom that a table of the file declares, its patterns compiled once to check them."""
    match table:
        case ExitCodeTable():
            both = sorted(set(table.matched) & set(table.clean))
            if both:
                message = f"exit {both[0]} is both matched and clean"
                raise UsageError(message, place=place, hint="an exit says one thing")
            return ExitCodeSymptom(
                name=name, matched=table.matched, clean=table.clean, declared=table.declared
            )
        case OutputTable():
            return _output_symptom(table, name, place=place)
        case TimeoutTable():
            compile_pattern(table.alive, place=f"{place}.alive")
            return TimeoutSymptom(
                name=name, alive=table.alive, stream=table.stream, clean=table.clean
            )
        case JunitTable():
            compile_pattern(table.message, place=f"{place}.message")
            return JunitSymptom(name=name, test=table.test, message=table.message, file=table.file)
        case DurationTable():
            return DurationSymptom(name=name, longer_than_us=table.longer_than_s, exit=table.exit)


def _output_symptom(table: OutputTable, name: str, *, place: str) -> OutputSymptom:
    compile_pattern(table.pattern, place=f"{place}.pattern")
    if table.clean is not None:
        compile_pattern(table.clean, place=f"{place}.clean")
    if table.clean is None and not table.clean_exit:
        message = "nothing says what a clean trial shows"
        hint = "add a `clean` pattern or `clean_exit = [0]`"
        raise UsageError(message, place=place, hint=hint)
    both = sorted(set(table.exit) & set(table.clean_exit))
    if both:
        message = f"exit {both[0]} goes with the symptom and is clean"
        raise UsageError(message, place=place, hint="an exit says one thing")
    return OutputSymptom(
        name=name,
        pattern=table.pattern,
        stream=table.stream,
        exit=table.exit,
        clean=table.clean,
        clean_exit=table.clean_exit,
    )


def _declared_factors(matrix: MatrixTable, place: str) -> Mapping[str, Mapping[str, Any]]:
    for name, levels in matrix.factors.items():
        if not levels:
            message = f"factor `{name}` has no level"
            raise UsageError(message, place=f"{place}.{name}", hint="write at least one level")
    return matrix.factors


def _run_override(key: str, value: object, *, place: str) -> str:
    """The canonical text of a key of `[run]` in a level, under the rules of `[run]` itself."""
    field = RunTable.model_fields[key]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        checked = adapter.validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        hint = f"write it as `[run]` has it: `{_RUN_EXAMPLES[key]}`"
        raise UsageError(message[:1].lower() + message[1:], place=place, hint=hint) from error
    return canonical_bytes(list(checked) if isinstance(checked, tuple) else checked).decode()


def _check_templates(knob: str, value: object, *, place: str) -> None:
    """Checks the placeholders of the knobs whose values are templates."""
    if knob == "env" and isinstance(value, dict):
        for name, text in value.items():
            check_placeholders(str(text), place=f"{place}.{name}")
    if knob == "args" and isinstance(value, tuple | list):
        for index, text in enumerate(value):
            check_placeholders(str(text), place=f"{place}[{index}]")


def _lists(value: object) -> object:
    """The value with lists for the tuples that the file's schema holds, as knobs expect it."""
    if isinstance(value, tuple | list):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


def _pattern(table: Mapping[str, str | tuple[str, ...]]) -> Pattern:
    return {k: (v,) if isinstance(v, str) else tuple(v) for k, v in table.items()}


def _patterns(tables: Sequence[Mapping[str, str | tuple[str, ...]]]) -> tuple[Pattern, ...]:
    return tuple(_pattern(table) for table in tables)
