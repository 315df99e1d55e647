"""All knobs by name, and what is done with several at once."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matrices import Setting
from reproduce.errors import UsageError
from reproduce.knobs import env
from reproduce.knobs.args import Args
from reproduce.knobs.env import Env
from reproduce.knobs.hash_seed import HashSeed
from reproduce.knobs.limits import Limits
from reproduce.knobs.locale import Locale
from reproduce.knobs.model import Availability, Knob, WorldDraft
from reproduce.knobs.requirements import Requirements
from reproduce.knobs.seed import Seed
from reproduce.knobs.switch_interval import SwitchInterval
from reproduce.knobs.tz import Tz
from reproduce.knobs.umask import Umask

KNOBS: Mapping[str, Knob] = {
    "env": Env(),
    "args": Args(),
    "requirements": Requirements(),
    "hash_seed": HashSeed(),
    "seed": Seed(),
    "tz": Tz(),
    "locale": Locale(),
    "umask": Umask(),
    "switch_interval": SwitchInterval(),
    "limits": Limits(),
}
"""In the order of application: what a level writes first, and what goes around the command last."""


class KnobRow(NamedTuple):
    """A knob as `knobs list` and `knobs probe` show it."""

    name: str
    summary: str
    value: str
    example: str
    mechanism: str
    available: bool
    why: str


def knob_named(name: str, *, place: str) -> Knob:
    """The knob with this name.

    Raises:
        UsageError: there is none; names the nearest one.
    """
    found = KNOBS.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, KNOBS, n=1)
    known = ", ".join(f"`{one}`" for one in KNOBS)
    hint = f"did you mean `{near[0]}`?" if near else f"knobs: {known}"
    raise UsageError(f"no knob is called `{name}`", place=place, hint=hint)


def parse_knob(name: str, value: object, *, place: str) -> Setting:
    """A declared knob as it is written into a plan.

    Raises:
        UsageError: there is no such knob, or its value breaks its rule.
    """
    text = knob_named(name, place=place).parse(value, place=f"{place}.{name}")
    return Setting(name=name, value=text)


def merge_knobs(groups: Iterable[Sequence[Setting]], *, place: str) -> tuple[Setting, ...]:
    """The knobs of the levels of one condition, sorted by name; only `env` may be set twice.

    Raises:
        UsageError: two levels set one knob, or one variable.
    """
    found: dict[str, str] = {}
    for group in groups:
        for setting in group:
            before = found.get(setting.name)
            if before is None:
                found[setting.name] = setting.value
            elif setting.name == "env":
                found["env"] = env.merged(before, setting.value, place=place)
            else:
                message = f"two factors set the knob `{setting.name}`"
                raise UsageError(message, place=place, hint="set each knob by one factor")
    return _settings(found)


def with_neutral(conditions: Sequence[Sequence[Setting]]) -> tuple[tuple[Setting, ...], ...]:
    """The knobs of all conditions, so that what goes around one command goes around each."""
    used = {setting.name for settings in conditions for setting in settings}
    around = {
        name: knob.neutral
        for name, knob in KNOBS.items()
        if knob.wraps and name in used and knob.neutral is not None
    }
    return tuple(
        _settings({**around, **{one.name: one.value for one in settings}})
        for settings in conditions
    )


def neutral(name: str) -> str | None:
    """The value of a knob that changes nothing, as canonical JSON text."""
    return KNOBS[name].neutral


def apply_knobs(settings: Iterable[Setting], draft: WorldDraft) -> None:
    """Applies the knobs of a condition to its draft, wrappers last."""
    values = {setting.name: setting.value for setting in settings}
    for name, knob in KNOBS.items():
        if name in values:
            knob.apply(values[name], draft)


def probe_knobs(settings: Iterable[Setting]) -> tuple[tuple[Setting, Availability], ...]:
    """The knobs that cannot be applied on this host with these values, and why."""
    probed = ((setting, KNOBS[setting.name].probe(setting.value)) for setting in settings)
    return tuple((setting, found) for setting, found in probed if not found.available)


def knob_evidence(
    settings: Iterable[Setting], reported: Mapping[str, str]
) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """What the child had of the knobs that leave evidence, and the names of those not applied."""
    shown, missed = [], []
    for setting in settings:
        knob = KNOBS[setting.name]
        if knob.evidence_file is None:
            continue
        found = knob.evidence(setting.value, reported)
        shown.append(Setting(name=setting.name, value=found.shown))
        if not found.applied:
            missed.append(setting.name)
    return tuple(shown), tuple(missed)


def knobs_table() -> tuple[KnobRow, ...]:
    """Every knob and whether this host has it, for `knobs list` and `knobs probe`."""
    rows = []
    for name, knob in KNOBS.items():
        found = knob.probe(None)
        rows.append(
            KnobRow(
                name=name,
                summary=knob.summary,
                value=knob.rule,
                example=knob.example,
                mechanism=found.mechanism,
                available=found.available,
                why=found.why,
            )
        )
    return tuple(rows)


def _settings(values: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name=name, value=values[name]) for name in sorted(values))
