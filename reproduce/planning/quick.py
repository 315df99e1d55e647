"""Writes the investigation file of `quick` and of `init`."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import UsageError

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class Quick(NamedTuple):
    """What a person gives on the command line."""

    treatment: str
    control: str
    trials: int
    match: str | None
    clean: str | None
    timeout_s: str
    parallel: int | None
    policy: str
    source: str
    shell: bool
    title: str | None
    exits: tuple[int, ...] = ()
    """The exits that go with `match`; none means any but 0."""


def write_quick(wanted: Quick, folder: Path, file: Path | None) -> Path:
    """Writes the investigation file and returns its path; an equal one is kept as it is.

    Raises:
        UsageError: the arguments make no investigation, or the file cannot be written.
    """
    text = quick_text(wanted)
    path = file or _unused(folder, text)
    if path.exists():
        if path.read_text(encoding="utf-8", errors="replace") == text:
            return path
        if file is not None:
            message = f"`{path}` is there already"
            raise UsageError(message, hint="name another with `--file`, or `reproduce run` it")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror}", place=str(path)) from error
    return path


def _unused(folder: Path, text: str) -> Path:
    number = 1
    while True:
        path = folder / ("reproduce.toml" if number == 1 else f"reproduce-{number}.toml")
        if not path.exists() or path.read_text(encoding="utf-8", errors="replace") == text:
            return path
        number += 1


def quick_text(wanted: Quick) -> str:
    """The investigation file for two commands."""
    treatment = _level(wanted.treatment, "--treatment", shell=wanted.shell)
    control = _level(wanted.control, "--control", shell=wanted.shell)
    if (treatment == control) or wanted.treatment == wanted.control:
        message = "the treatment and the control are the same command"
        raise UsageError(message, hint="let them differ in what you suspect")
    if not re.fullmatch(r"\d+(\.\d{1,6})?", wanted.timeout_s):
        message = f"`{wanted.timeout_s}` is not a number of seconds"
        raise UsageError(message, place="--timeout", hint="such as `--timeout 2.5`")
    title = wanted.title or f"{wanted.treatment} against {wanted.control}"
    lines = [
        "version = 1",
        f"title   = {toml(title[:500])}",
        "",
        "[run]",
        f"cmd       = {_words(treatment[1])}",
        f"timeout_s = {wanted.timeout_s}",
        f"source    = {toml(wanted.source)}",
        "",
        "[symptom]",
        *_symptom(wanted),
        "",
        "[matrix.command]",
        f"treatment = {_table(treatment)}",
        f"control   = {_table(control)}",
        "",
        "[arms]",
        'treatment = { command = "treatment" }',
        'control   = { command = "control" }',
        "",
        "[budget]",
        f"trials = {wanted.trials}",
    ]
    if wanted.parallel is not None:
        lines.append(f"parallel = {wanted.parallel}")
    lines += ["", "[policy]", f"name = {toml(wanted.policy)}", ""]
    return "\n".join(lines)


def _symptom(wanted: Quick) -> list[str]:
    if wanted.match is None:
        if wanted.clean is not None:
            message = "`--clean` says what a clean trial prints, but not what the bug prints"
            raise UsageError(message, place="--clean", hint="add `--match`")
        if wanted.exits:
            message = "`--exit` says which exits go with the bug's output, but not what it prints"
            raise UsageError(message, place="--exit", hint="add `--match`")
        return [
            "# nobody said what the bug looks like: exit 1 is read as the bug, exit 0 as clean",
            'kind     = "exit-code"',
            "matched  = [1]",
            "clean    = [0]",
            "declared = false",
        ]
    if wanted.clean is None and 0 in wanted.exits:
        message = "exit 0 goes with the bug, so it cannot tell a clean trial"
        raise UsageError(message, place="--exit", hint="say what a clean one prints: `--clean`")
    lines = ['kind    = "output"', f"pattern = {toml(wanted.match)}"]
    if wanted.exits:
        lines.append(f"exit    = {list(dict.fromkeys(wanted.exits))}")
    clean = "clean_exit = [0]" if wanted.clean is None else f"clean   = {toml(wanted.clean)}"
    return [*lines, clean]


def _level(text: str, option: str, *, shell: bool) -> tuple[dict[str, str], list[str]]:
    """The variables and the words of a command."""
    if shell:
        return {}, ["sh", "-c", _literal(text)]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot split the command: {error}", place=option) from error
    variables: dict[str, str] = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found.group(1)] = _literal(found.group(2))
        words.pop(0)
    if not words:
        raise UsageError("no command is given", place=option, hint="such as 'python3 probe.py'")
    if any(word in {"|", "&&", "||", ";", ">", "<", "&"} for word in words):
        message = "the command has shell signs, and no shell runs it"
        raise UsageError(message, place=option, hint="`--shell` gives it to `sh -c`")
    return variables, [_literal(word) for word in words]


def _literal(text: str) -> str:
    """Text in which no brace is taken for a placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def _words(words: list[str]) -> str:
    return "[" + ", ".join(toml(word) for word in words) + "]"


def _table(level: tuple[dict[str, str], list[str]]) -> str:
    variables, words = level
    parts = [f"cmd = {_words(words)}"]
    if variables:
        inner = ", ".join(f"{name} = {toml(value)}" for name, value in variables.items())
        parts.append(f"env = {{ {inner} }}")
    return "{ " + ", ".join(parts) + " }"


def toml(text: str) -> str:
    """The text as a TOML basic string, which JSON's spelling is but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


STARTERS = {
    "output": 'kind = "output"\npattern = "VIOLATED"        # RE2: what the bug prints\nclean_exit = [0]            # what a trial without it shows',
    "exit-code": 'kind = "exit-code"           # every other code is unresolved\nmatched = [1]\nclean = [0]',
    "timeout": 'kind = "timeout"             # the time limit is the symptom\nalive = "^READY"            # what it prints before it can hang\nclean = [0]',
    "junit": 'kind = "junit"\ntest = "tests/test_upload.py::test_resume"\nmessage = "ChunkMismatch"   # RE2 on the failure\'s text',
    "duration": 'kind = "duration"\nlonger_than_s = 2.0\nexit = [0]',
}
"""The symptom of a file to start from, by kind."""

_COMMANDS = {
    "junit": '["python3", "-m", "pytest", "-q", "--junitxml={out}/junit.xml", "tests/test_upload.py::test_resume"]'
}


def starter_text(kind: str) -> str:
    """An investigation file to start from, with comments.

    Raises:
        UsageError: no such kind of symptom.
    """
    if kind not in STARTERS:
        known = ", ".join(f"`{name}`" for name in STARTERS)
        raise UsageError(f"no kind of symptom is called `{kind}`", place="--from", hint=known)
    return f"""\
version = 1
title   = "what goes wrong, in one line"
# issue = "owner/project#88"

[run]
cmd       = {_COMMANDS.get(kind, '["python3", "probe.py"]')}
timeout_s = 60
source    = "."                  # copied fresh for every trial; or "none"

[symptom]
{STARTERS[kind]}

[matrix.workers]                 # one factor: what you suspect, on and off
many = {{ env = {{ WORKERS = "8" }} }}
one  = {{ env = {{ WORKERS = "1" }} }}

[arms]
treatment = {{ workers = "many" }}
control   = {{ workers = "one" }}

[budget]
trials = 60                      # for each condition

[policy]
name = "binomial/1"
alpha = "0.05"
min_effect = "0.10"
"""


def write_starter(path: Path, kind: str) -> None:
    """Writes a file to start from; never over another.

    Raises:
        UsageError: the file is there already or cannot be written.
    """
    text = starter_text(kind)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError as error:
        hint = "name another path" if isinstance(error, FileExistsError) else ""
        raise UsageError(str(error.strerror).lower(), place=str(path), hint=hint) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
