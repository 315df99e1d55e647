"""What the commands about the tool itself do, once heavy libraries may be loaded."""

import ast
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from policies import PolicyError
from policies.registry import complete, names, reducer
from reproduce.cli.acting import look
from reproduce.cli.output import emit, emit_json, say
from reproduce.errors import UsageError
from reproduce.report.look import columns, draw, indent
from reproduce.report.text import one_line

SHELLS = ("bash", "zsh", "fish")

COMPLETE_VARIABLE = "_REPRODUCE_COMPLETE"
"""What a completion script sets when it asks the command for words."""


class About(NamedTuple):
    """A policy in words."""

    use: str
    claims: str
    error: str
    parameters: Mapping[str, str]
    """What each parameter means."""


_THRESHOLDS = "none stated: it counts matches against fixed thresholds"

ABOUT: Mapping[str, About] = {
    "strict/1": About(
        "you need the published threshold rule, as published",
        "the class of the treatment by the share of its valid trials that matched, where the "
        "control did not match; unresolved trials are left out",
        _THRESHOLDS,
        {},
    ),
    "strict/2": About(
        "you expect a bug that always shows in the treatment",
        "the same classes, held to the worst reading: every unresolved treatment trial counted "
        "as clean, every unresolved control trial as matched",
        _THRESHOLDS,
        {},
    ),
    "binomial/1": About(
        "the bug shows only sometimes",
        "that the symptom is more frequent under treatment than under control, or that a "
        "difference of `min_effect` is excluded; both by exact tests on a fixed number of trials",
        "at most `alpha` for each claim, trials taken as independent",
        {
            "alpha": "error of each one-sided test and of each printed limit",
            "max_unresolved": "the share of an arm that may be unresolved",
            "min_effect": "the smallest difference of rates that matters, a multiple of 0.001",
            "unresolved": "the share that planning expects to be unresolved",
            "power": "the chance of REPRODUCTION_PINNED that the plan demands; by default none",
        },
    ),
}


def list_policies(*, as_json: bool) -> None:
    """Prints the published policies, one a line."""
    if as_json:
        emit_json({"schema": "reproduce.policies/1", "policies": [_policy(n) for n in names()]})
        return
    table = columns(look(plain=False), ("policy", "use it when", "error rate"))
    for name in names():
        table.add_row(name, ABOUT[name].use, ABOUT[name].error)
    emit(draw((table,), look(plain=False)))


def show_policy(name: str, *, as_json: bool) -> None:
    """Prints what a policy claims, its parameters with their defaults, and its code's digest.

    Raises:
        UsageError: there is no such policy.
    """
    found = _policy(_known(name))
    if as_json:
        emit_json({"schema": "reproduce.policy/1", **found})
        return
    about, drawn = ABOUT[name], look(plain=False)
    digest, modules = code_digest(name)
    facts = columns(drawn, ("", ""))
    facts.show_header = False
    facts.add_row("use it when", about.use)
    facts.add_row("claims", about.claims)
    facts.add_row("error rate", about.error)
    defaults = _defaults(name)
    for parameter, meaning in about.parameters.items():
        shown = f"{meaning} (default {defaults[parameter]})" if parameter in defaults else meaning
        facts.add_row(parameter, shown)
    facts.add_row("code", f"sha256 {digest}, over {len(modules)} modules")
    following = f"Next:  reproduce policy power {name}"
    emit(draw((drawn.text(name, "bold"), indent(facts), drawn.text(following, "bold")), drawn))


def _known(name: str) -> str:
    try:
        reducer(name)
    except PolicyError as error:
        raise UsageError(str(error), hint=error.hint) from error
    return name


def _defaults(name: str) -> dict[str, str]:
    return {setting.name: setting.value for setting in complete(name, {}).parameters}


def _policy(name: str) -> dict[str, object]:
    about = ABOUT[name]
    digest, modules = code_digest(name)
    defaults = _defaults(name)
    return {
        "name": name,
        "use_when": about.use,
        "claims": about.claims,
        "error_rate": about.error,
        "parameters": {
            parameter: {"meaning": meaning, "default": defaults.get(parameter)}
            for parameter, meaning in about.parameters.items()
        },
        "code_sha256": digest,
        "modules": modules,
    }


def code_digest(name: str) -> tuple[str, tuple[str, ...]]:
    """The SHA-256 of a policy's code, and the modules that it covers, sorted.

    Covers every module of `policies` that the policy's own imports, and theirs: the rules, the
    reading and the statistics. Hashed are the name, length and bytes of each source file.
    """
    waiting, sources = [reducer(name).__module__], dict[str, bytes]()
    while waiting:
        module = waiting.pop()
        if module not in sources:
            sources[module] = _source(module).read_bytes()
            waiting += _imported(sources[module])
    digest = hashlib.sha256()
    for module, data in sorted(sources.items()):
        digest.update(f"{module}\n{len(data)}\n".encode() + data)
    return digest.hexdigest(), tuple(sorted(sources))


def _source(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None  # noqa: S101 - it was found by an import
    assert spec.origin is not None  # noqa: S101
    return Path(spec.origin)


def _imported(source: bytes) -> Iterator[str]:
    """The modules of `policies` that a source file imports from."""
    for node in ast.walk(ast.parse(source)):
        found: Iterable[str] = ()
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found = (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            found = tuple(alias.name for alias in node.names)
        for module in found:
            if module.startswith("policies.") and _is_module(module):
                yield module


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def show_power(
    name: str, trials: int, settings: tuple[str, ...], *, plain: bool, as_json: bool
) -> None:
    """Prints the chance of each verdict over a grid of true rates.

    Raises:
        UsageError: no such policy or parameter, or too many trials.
    """
    from reproduce.cli.powers import power_json, power_table, power_text

    given = _given(settings)
    try:
        table = power_table(_known(name), trials, given)
    except PolicyError as error:
        place = error.place.replace("policy.", "--set ")
        raise UsageError(str(error), place=place, hint=error.hint) from error
    emit(power_json(table) if as_json else power_text(table, look(plain=plain)))


def _given(settings: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            message = f"`{setting}` is not NAME=VALUE"
            raise UsageError(message, place="--set", hint="such as `--set alpha=0.01`")
        given[name] = value
    return given


def list_knobs(*, as_json: bool, probe: bool) -> None:
    """Prints the knobs, or with `probe` which of them this machine can apply, and how."""
    from reproduce.knobs import knobs_table

    rows = knobs_table()
    if as_json:
        emit_json({"schema": "reproduce.knobs/1", "knobs": [row._asdict() for row in rows]})
        return
    drawn = look(plain=False)
    header = ("knob", "here", "how, or why not") if probe else ("knob", "example", "sets")
    table = columns(drawn, header)
    for row in rows:
        if probe:
            how = row.mechanism if row.available else row.why
            how = f"{how}; {row.why}" if row.available and row.why else how
            cells = (row.name, "yes" if row.available else "no", how)
        else:
            cells = (row.name, f"{row.name} = {row.example}", f"{row.summary}: {row.value}")
        table.add_row(*(drawn.text(one_line(cell)) for cell in cells))
    emit(draw((table,), drawn))


def doctor(*, as_json: bool) -> None:
    """Prints one line for each check of this machine.

    Raises:
        Exit: with 5 if no trial can run here.
    """
    from reproduce.cli.checkup import print_checkup

    print_checkup(as_json=as_json)


def show_schema(output: Path | None) -> None:
    """Prints the JSON Schema of the investigation file, or writes it to a file."""
    from reproduce.planning.schema import file_schema
    from reproduce.report.as_json import document

    text = document(file_schema())
    if output is None:
        emit(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "name a file in a folder that you may write to"
        raise UsageError(str(error.strerror).lower(), place=str(output), hint=hint) from error
    say(f"wrote {output}")
    say(f"next: put `#:schema {shlex.quote(str(output))}` on the first line of your file")


def show_completion(shell: str) -> None:
    """Prints the completion script of a shell.

    Raises:
        UsageError: there is none for this shell.
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        known = ", ".join(f"`{name}`" for name in SHELLS)
        raise UsageError(f"no completion for the shell `{shell}`", hint=f"shells: {known}")
    script = get_completion_script(
        prog_name="reproduce", complete_var=COMPLETE_VARIABLE, shell=shell
    )
    emit(script)
