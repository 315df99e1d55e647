"""What a sealed plan would run, in rows that somebody who approves it reads."""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from matrices import Condition, Environment, Plan
from reproduce.report.text import one_line, printable

MAX_NAMES = 12
"""Conditions that a row lists by name; the others are counted."""

MAX_VALUE = 60
"""Characters shown of a variable; the row says how long the value is."""

_DIGEST_DIGITS = 12

_K = TypeVar("_K", bound=Hashable)

_LOADERS = frozenset(
    {
        "BASH_ENV",
        "ENV",
        "JAVA_TOOL_OPTIONS",
        "NODE_OPTIONS",
        "PERL5LIB",
        "PERL5OPT",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYOPT",
    }
)
"""Variables by which other programs than the command are run; those of the loader are `LD_*`."""

_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)

_SYSTEM = re.compile(r"/(usr/(local/)?)?s?bin|/usr/(local/)?games|/snap/bin")

_PLAIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\s*\[[A-Za-z0-9._,\s-]*\])?"  # name and extras
    r"(\s*\(?(===|[<>=!~]=|[<>])[A-Za-z0-9.*+!_,<>=~\s-]*\)?)?"  # versions
    r"(\s*;[^/\\@]*?)?"  # marker
    r"(\s+--hash=[a-z0-9]+:[0-9a-f]+)*"
)
"""A requirement that an index answers: no option, path or address."""

_ARCHIVES = (".whl", ".zip", ".gz", ".bz2", ".xz", ".tar", ".tgz")


class Requirements(NamedTuple):
    """A requirements file in brief."""

    lines: int
    """Without blank lines and comments."""
    sha256: str
    notable: tuple[str, ...]
    """Options, and what comes from a path or an address, in their order."""


def requirements_of(environment: Environment) -> Requirements | None:
    """What to know of the requirements of an environment; `None` where it has none."""
    if environment.requirements is None:
        return None
    lines = _logical_lines(environment.requirements)
    notable = tuple(line for line in lines if not _is_plain(line))
    digest = hashlib.sha256(environment.requirements.encode("utf-8", "surrogatepass"))
    return Requirements(len(lines), digest.hexdigest(), notable)


def contents_of(plan: Plan, *, duration: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Rows of set-up, requirements, commands, variables and knobs.

    What all conditions share is one row, and each group of conditions that differs has its own.
    """
    yield from _environments(plan)
    for (cmd, timeout), who in _groups(plan, lambda found: (found.cmd, found.timeout_us)):
        yield "command", f"{who}{_command(cmd)}  (time limit {duration(timeout)})"
    yield from _settings(plan, "env", variables_of)
    yield from _settings(plan, "knobs", _knobs_of)


def variables_of(condition: Condition) -> dict[str, str]:
    """The variables of a condition as its commands see them, placeholders unfilled."""
    found = {setting.name: setting.value for setting in condition.env}
    for knob in condition.knobs:
        if knob.name == "env":
            found.update(json.loads(knob.value))
    return found


def warnings_of(plan: Plan) -> tuple[str, ...]:
    """What somebody who approves the plan should look at twice."""
    names = {name for condition in plan.conditions for name in variables_of(condition)}
    loaders = sorted(name for name in names if name in _LOADERS or name.startswith("LD_"))
    secrets = sorted(name for name in names if _SECRET.search(name))
    found = []
    if loaders:
        what = "decides" if len(loaders) == 1 else "decide"
        found.append(f"{', '.join(loaders)} {what} what code runs beside the command")
    if secrets:
        what = (
            "is a secret, its value is" if len(secrets) == 1 else "are secrets, their values are"
        )
        found.append(f"if {', '.join(secrets)} {what} now stored in the plan and shown here")
    return tuple(one_line(text) for text in (*found, *_path_warnings(plan)))


def _path_warnings(plan: Plan) -> Iterator[str]:
    values = {variables_of(condition).get("PATH") for condition in plan.conditions}
    by_level = any(
        "PATH" in json.loads(knob.value)
        for condition in plan.conditions
        for knob in condition.knobs
        if knob.name == "env"
    )
    if by_level or len(values) > 1:
        yield "PATH is set by a level: it decides which programs the command means"
    if any(value is not None and not _is_absolute(value) for value in values):
        yield "PATH has folders that are not absolute: a tree may hold programs of any name"


def _environments(plan: Plan) -> Iterator[tuple[str, str]]:
    for position, who in _groups(plan, lambda found: found.environment):
        if position is None or position >= len(plan.environments):
            continue
        environment = plan.environments[position]
        for words in environment.setup:
            yield "setup", f"{who}{_command(words)}"
        brief = requirements_of(environment)
        if brief is None:
            continue
        lines = "1 line" if brief.lines == 1 else f"{brief.lines} lines"
        yield "requirements", f"{who}{lines}, sha256 {brief.sha256[:_DIGEST_DIGITS]}"
        for line in brief.notable:
            yield "", f"not from the index alone: {one_line(line)}"


def _settings(
    plan: Plan, title: str, read: Callable[[Condition], Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """One row of what all conditions share, and one for each group with the rest."""
    every = [read(condition) for condition in plan.conditions]
    shared = dict(set.intersection(*(set(one.items()) for one in every)))
    if shared:
        yield title, _listed(shared)
    groups = list(_groups(plan, lambda found: tuple(sorted(read(found).items() - shared.items()))))
    if len(groups) > 1:
        for rest, who in groups:
            yield title, f"{who}{_listed(dict(rest)) or 'nothing more'}"


def _listed(settings: Mapping[str, str]) -> str:
    usual = [name for name in ("LANG", "PATH") if name in settings]
    others = sorted(settings.keys() - set(usual))
    return " · ".join(_setting(name, settings[name]) for name in (*others, *usual))


def _setting(name: str, value: str) -> str:
    if name == "PATH" and _is_absolute(value):
        folders = value.split(":")
        # In their order, each once: the first that has a program decides.
        strange = dict.fromkeys(folder for folder in folders if not _SYSTEM.fullmatch(folder))
        usual = f"{sum(map(bool, map(_SYSTEM.fullmatch, folders)))} of the system"
        return f"PATH of {', '.join((*map(_visible, strange), usual))}"
    return f"{one_line(name)}={_cut(_visible(value))}"


def _cut(text: str) -> str:
    if len(text) <= MAX_VALUE:
        return text
    return f"{text[:MAX_VALUE]}… ({len(text)} characters)"


def _visible(value: str) -> str:
    """The value as one word, with what a terminal would not show as escapes."""
    return shlex.quote(value) if one_line(value) == value else json.dumps(value)


def _is_absolute(path: str) -> bool:
    return all(folder.startswith("/") and "{" not in folder for folder in path.split(":"))


def _knobs_of(condition: Condition) -> dict[str, str]:
    """The knobs besides `env`, whose variables stand with the others."""
    return {knob.name: knob.value for knob in condition.knobs if knob.name != "env"}


def _command(words: tuple[str, ...]) -> str:
    # What a terminal cannot show is made visible; line breaks of a script become spaces.
    plain = all(printable(word, lines=True) == word for word in words)
    return one_line(shlex.join(words)) if plain else json.dumps(list(words))


def _groups(plan: Plan, key: Callable[[Condition], _K]) -> list[tuple[_K, str]]:
    """The different keys in the order of the conditions, with words for who has each."""
    found: dict[_K, list[Condition]] = {}
    for condition in plan.conditions:
        found.setdefault(key(condition), []).append(condition)
    if len(found) == 1:
        return [(value, "") for value in found]
    return [(value, f"{_who(plan, group)}: ") for value, group in found.items()]


def _who(plan: Plan, group: list[Condition]) -> str:
    """The conditions of a group: by their arm where they are all of it, else by name."""
    (role, *others) = {condition.role for condition in group}
    if not others and len(group) == sum(found.role is role for found in plan.conditions):
        return role.value
    names = [one_line(condition.name) for condition in group[:MAX_NAMES]]
    left = len(group) - MAX_NAMES
    return ", ".join(names) + (f" and {left} more" if left > 0 else "")


def _is_plain(line: str) -> bool:
    name = re.split(r"[\s;\[<>=!~(]", line, maxsplit=1)[0]
    return _PLAIN.fullmatch(line) is not None and not name.endswith(_ARCHIVES)


def _logical_lines(text: str) -> list[str]:
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]
