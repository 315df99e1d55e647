"""Recomputes everything that an investigation claims, from its ledger alone, in numbered steps.

It trusts nothing that was issued: not the root, not the readings, not the verdict. What it cannot
show is said in `SHOWS`; only running the trials again can.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from ledger.audit import verify_entries
from ledger.errors import TamperedError
from ledger.records import EntryKind
from ledger.store import InvestigationRow, LedgerStore
from matrices import Plan, schedule, trial_seed
from policies.registry import reduce
from reproduce import __version__
from reproduce.approvals import described
from reproduce.auditing import wrong_body, wrong_roots, wrong_stream
from reproduce.judging import evidence, plan_of, story_of
from reproduce.knobs import WorldDraft, apply_knobs
from reproduce.matching import Matchers

SHOWS = (
    "shows that the records agree with each other and with the plan;"
    " not who wrote them, nor that the trials ran"
)
"""What a verification without a finding is worth."""

_EMPTY = hashlib.sha256(b"").hexdigest()


class Step(StrEnum):
    """What is checked, in this order."""

    GUARDS = "guards"
    """That the store still refuses to change or remove entries; checked where it is opened."""
    BLOBS = "blobs"
    """That stored bytes have their digests; checked of a whole file."""
    ENTRIES = "entries"
    PLAN = "plan"
    APPROVAL = "approval"
    TRIALS = "trials"
    READINGS = "readings"
    VERDICT = "verdict"
    PROJECTION = "projection"
    """That the query tables are those of the entries; checked of a whole file."""


class Check(NamedTuple):
    """The result of one step."""

    step: Step
    holds: bool
    detail: str


class Verification(NamedTuple):
    """All steps of one investigation, up to the first that makes the rest meaningless."""

    investigation: str
    root: str
    checks: tuple[Check, ...]
    executed_by: str
    """The hosts whose records these are, as the records say; not checked here."""
    recomputed_by: str
    """What recomputed them."""

    @property
    def holds(self) -> bool:
        """Whether every step holds."""
        return all(check.holds for check in self.checks)


class _FindingError(Exception):
    """A record is not what it must be; the text names it."""


def verify(store: LedgerStore, row: InvestigationRow) -> Verification:
    """Checks one investigation of a ledger; never raises for what it finds wrong."""
    checks: list[Check] = []
    place = f"investigation `{row.id}`"
    head = ""
    steps: tuple[tuple[Step, Callable[[], str]], ...] = (
        (Step.ENTRIES, lambda: _entries(store, row)),
        (Step.PLAN, lambda: _plan(store, row)),
        (Step.APPROVAL, lambda: _approval(store, row)),
        (Step.TRIALS, lambda: _trials(store, row)),
        (Step.READINGS, lambda: _readings(store, row)),
        (Step.VERDICT, lambda: _verdict(store, row)),
    )
    for step, check in steps:
        try:
            checks.append(Check(step, holds=True, detail=check()))
        except _FindingError as error:
            checks.append(Check(step, holds=False, detail=str(error)))
        except TamperedError as error:
            where = "" if error.seq is None else f"entry {error.seq}: "
            checks.append(Check(step, holds=False, detail=f"{where}{error} ({error.rule})"))
        except (ValueError, KeyError, TypeError) as error:
            checks.append(Check(step, holds=False, detail=f"{place} cannot be read: {error}"))
        if not checks[-1].holds:
            # Later steps read what this one found wrong.
            break
    if checks[0].holds:
        head = store.head(row.id).root
    return Verification(
        investigation=row.id,
        root=head,
        checks=tuple(checks),
        executed_by=_executed_by(store, row) if checks[0].holds else "unknown",
        recomputed_by=f"reproduce {__version__}",
    )


def _entries(store: LedgerStore, row: InvestigationRow) -> str:
    """(1) Bytes, numbers, keys, leaves, the root of the tree, and bodies of their kinds."""
    found = verify_entries(row.id, store.entries(row.id), store.head(row.id), plan=row.plan)
    _refuse(next(filter(None, map(wrong_body, store.entries(row.id))), None))
    parts = [f"{found.size} entries, root {found.root}"]
    if found.conflicts:
        parts.append(f"{found.conflicts} conflicts on record")
    if found.clock_went_back:
        parts.append(f"the clock went back {found.clock_went_back} times")
    return ", ".join(parts)


def _plan(store: LedgerStore, row: InvestigationRow) -> str:
    """(2) The plan is what its digest names."""
    plan = plan_of(store, row.id)
    if plan.digest() != row.plan:
        raise _FindingError(f"the plan's digest is {plan.digest()}, listed as {row.plan}")
    if (row.title, row.issue) != (plan.title, plan.issue):
        raise _FindingError(
            "the investigation is listed with another title or issue than its plan"
        )
    return f"{plan.short_name()}, sha256 {row.plan}"


def _approval(store: LedgerStore, row: InvestigationRow) -> str:
    """(3) An approval of this plan stands before the first intent.

    Whose it is can be told only where it was given; a copied ledger holds without that.
    """
    approved = False
    for entry in store.entries(row.id):
        if entry.kind == EntryKind.APPROVAL:
            approved, body = True, _body(entry.body)
            if body["plan"] != row.plan:
                raise _FindingError(f"entry {entry.seq} approves another plan: {body['plan']}")
        if entry.kind in {EntryKind.INTENT, EntryKind.OBSERVATION} and not approved:
            raise _FindingError(f"entry {entry.seq} stands before any approval")
    if not approved:
        return "not approved, and nothing ran"
    return described(story_of(store, row.id).approvals, row.id)


def _trials(store: LedgerStore, row: InvestigationRow) -> str:
    """(4) Every record is of a planned trial, intended before it, with the schedule's seed; once."""
    plan = plan_of(store, row.id)
    planned = schedule(plan)
    fixed = _fixed_seeds(plan)
    seen = bytearray(len(planned))
    intended: list[tuple[int, int]] = []
    for entry in store.entries(row.id):
        if entry.kind == EntryKind.INTENT:
            body = _body(entry.body)
            intended.append((body["first_block"], body["end_block"]))
        if entry.kind != EntryKind.OBSERVATION:
            continue
        body = _body(entry.body)
        number = body["trial"]
        if number >= len(planned):
            raise _FindingError(f"entry {entry.seq} records trial {number}, which is not planned")
        trial = planned.trial(number)
        seed = fixed[trial.condition]
        expected = trial_seed(plan.seed, number) if seed is None else seed
        given = (body["block"], body["condition"], body["seed"])
        if given != (trial.block, trial.condition, expected):
            raise _FindingError(f"entry {entry.seq} records trial {number} as another one")
        if not any(first <= trial.block < end for first, end in intended):
            raise _FindingError(f"entry {entry.seq} records trial {number} before its intent")
        if seen[number]:
            raise _FindingError(f"entry {entry.seq} records trial {number} once more")
        seen[number] = 1
    missing = len(planned) - sum(seen)
    return f"{sum(seen)} of {len(planned)} planned trials recorded once, {missing} missing"


def _fixed_seeds(plan: Plan) -> list[int | None]:
    seeds = []
    for condition in plan.conditions:
        draft = WorldDraft(argv=list(condition.cmd), env={})
        apply_knobs(condition.knobs, draft)
        seeds.append(draft.seed)
    return seeds


def _readings(store: LedgerStore, row: InvestigationRow) -> str:
    """(5) The matchers find the same in the stored output as was recorded."""
    matchers = Matchers(plan_of(store, row.id).symptoms)
    checked = 0
    for entry in store.entries(row.id):
        if entry.kind != EntryKind.OBSERVATION:
            continue
        body = _body(entry.body)
        found = [
            finding.model_dump()
            for finding in matchers.find(
                stdout=_stream(store, entry.seq, body, "stdout"),
                stderr=_stream(store, entry.seq, body, "stderr"),
                files=dict(_files(store, entry.seq, body)),
            )
        ]
        if found != body["findings"]:
            raise _FindingError(f"entry {entry.seq}: the stored output shows other findings")
        checked += 1
    return f"{checked} records match their stored output"


def _stream(store: LedgerStore, seq: int, body: Mapping[str, Any], name: str) -> bytes:
    data = _bytes(store, seq, body[name]["sha256"])
    _refuse(wrong_stream(seq, name, body[name], data))
    return data


def _bytes(store: LedgerStore, seq: int, sha256: str) -> bytes:
    if sha256 == _EMPTY:
        return b""
    data = store.blob(sha256)
    if data is None:
        raise _FindingError(f"entry {seq} names output {sha256}, which is not stored")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _FindingError(f"entry {seq}: the stored output is not what {sha256} names")
    return data


def _files(
    store: LedgerStore, seq: int, body: Mapping[str, Any]
) -> Iterator[tuple[str, bytes | None]]:
    for file in body["files"]:
        sha256 = file["sha256"]
        data = None if sha256 is None else _bytes(store, seq, sha256)
        if data is not None and len(data) != file["size"]:
            raise _FindingError(
                f"entry {seq} says a file has {file['size']} bytes, not {len(data)}"
            )
        yield file["path"], data


def _verdict(store: LedgerStore, row: InvestigationRow) -> str:
    """(6) The policy gives the verdict that was issued, from the records of the root it names."""
    plan, story = plan_of(store, row.id), story_of(store, row.id)
    if not story.issued:
        if story.recorded >= plan.trial_count():
            return "every planned trial is recorded, but NO verdict was issued over them"
        return "none was issued yet"
    _refuse(wrong_roots(lambda: store.entries(row.id)))
    again = reduce(plan, evidence(store, row.id, plan, story)).canonical().decode()
    issued, recomputed = orjson.loads(story.issued[-1]), orjson.loads(again)
    if story.issued[-1] != again:
        fields = [name for name in recomputed if issued.get(name) != recomputed[name]]
        raise _FindingError(
            f"the recomputed verdict differs from the issued one in {', '.join(fields)}"
        )
    status = recomputed["status"]
    return f"{status} under {plan.policy.name}, recomputed"


def _refuse(wrong: str | None) -> None:
    if wrong is not None:
        raise _FindingError(wrong)


def _body(entry: bytes) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(entry)["body"]
    return body


def _executed_by(store: LedgerStore, row: InvestigationRow) -> str:
    hosts = [item.value for item in story_of(store, row.id).places if item.name == "host"]
    return ", ".join(dict.fromkeys(hosts)) or "nobody yet"
