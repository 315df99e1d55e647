"""Turns reports into observations and appends them to the ledger in groups."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ledger.canonical import encode
from ledger.errors import EntryRefusedError
from ledger.records import (
    Conflict,
    Ending,
    EntryKind,
    Intent,
    LateResult,
    NeverStarted,
    Observation,
    observation_key,
)
from ledger.store import Blob, Item, LedgerStore
from matrices import CanonicalError, Plan
from policies.evidence import facts_of
from policies.model import Outcome
from policies.reading_v1 import Facts, read
from reproduce import clock
from reproduce.executors.model import Captured, KeptFile, Order, Report
from reproduce.matching import Matchers, stored_stream

FLUSH_ROWS = 512
"""Observations in one commit: past this a commit costs more time than it saves."""

FLUSH_US = 500_000
"""Longest wait of an observation for its commit; the spool covers what is waiting."""

_MEASURED = frozenset({Ending.EXITED, Ending.SIGNALLED, Ending.TIME_LIMIT})
"""Endings of attempts that ran, so that their knobs left evidence."""

_NOTHING_SHA = hashlib.sha256(b"").hexdigest()
_NOTHING = {"sha256": _NOTHING_SHA, "size": 0, "stored": 0, "truncated": False}


class KnobCheck(Protocol):
    """Says what the child really had: evidence to record, and knobs that did not take."""

    def __call__(
        self, condition: int, reported: Mapping[str, str]
    ) -> tuple[Sequence[tuple[str, str]], Sequence[str]]:
        """The evidence by knob, and the names of knobs that were not applied."""
        ...


class Counts(NamedTuple):
    """What may be shown while outcomes are sealed."""

    recorded: int
    unresolved: int


class Recorder:
    """The one writer of an investigation: observations in groups, intents at once."""

    def __init__(
        self,
        store: LedgerStore,
        investigation: str,
        plan: Plan,
        *,
        fence: int,
        matchers: Matchers,
        check_knobs: KnobCheck,
        host: str,
    ) -> None:
        """Takes the leased investigation of `store`, and what readings of its facts need."""
        self._store = store
        self._investigation = investigation
        self.fence = fence
        self._matchers = matchers
        self._check_knobs = check_knobs
        self._host = host
        self._symptom = plan.symptom()
        self._waiting: list[Item] = []
        self._waiting_since = clock.monotonic_us()
        self._unresolved: dict[Facts, bool] = {}
        self.counts = Counts(recorded=0, unresolved=0)

    def resume_counts(self, counts: Counts) -> None:
        """Starts the counts from what earlier sessions recorded."""
        self.counts = counts

    def observe(self, report: Report) -> None:
        """Keeps an attempt's record for the next commit."""
        self._add(*self._item(report), key=observation_key(report.number, report.attempt))

    def lost(self, order: Order, *, slot: int, ending: Ending, detail: str) -> None:
        """Keeps the record of a started attempt whose end nobody saw."""
        self.observe(_lost_report(order, slot=slot, ending=ending, detail=detail))

    def never_started(self, report: Report) -> None:
        """Keeps the record of an attempt that provably never started."""
        body = NeverStarted(trial=report.number, attempt=report.attempt, detail=report.detail)
        key = f"never:{report.number}:{report.attempt}"
        self._waiting.append(Item(EntryKind.ATTEMPT_NEVER_STARTED, key, _dump(body)))

    def late(self, report: Report) -> None:
        """Keeps evidence that turned up after its trial was closed; it does not count."""
        body, blobs = self._item(report)
        late = LateResult(
            trial=report.number,
            attempt=report.attempt,
            observation=Observation.model_validate(body, strict=False),
        )
        key = f"late:{report.number}:{report.attempt}"
        self._waiting.append(Item(EntryKind.LATE_RESULT, key, _dump(late), blobs))

    def intend(self, intent: Intent) -> None:
        """Makes an intent durable, with everything that waits."""
        key = f"intent:{intent.session}:{intent.first_block}"
        self._waiting.append(Item(EntryKind.INTENT, key, _dump(intent)))
        self.flush()

    def flush_if_due(self) -> None:
        """Commits what waits, if it is much or has waited long."""
        if not self._waiting:
            return
        waited = clock.monotonic_us() - self._waiting_since
        if len(self._waiting) >= FLUSH_ROWS or waited >= FLUSH_US:
            self.flush()

    def flush(self) -> None:
        """Commits what waits; durable when this returns."""
        if not self._waiting:
            return
        try:
            self._append()
        except (CanonicalError, EntryRefusedError):
            # A trial decides how its output folder looks. What cannot be stored of it must not
            # keep the records of other trials out, nor make the investigation impossible to run.
            self._waiting = [self._storable(item) for item in self._waiting]
            self._append()
        self._waiting = []

    def conflict(self, key: str, *, sealed: str, found: str) -> None:
        """Makes durable that something is no longer what was sealed under `key`."""
        content = encode({"found": found, "sealed": sealed})
        body = Conflict(
            key=key, sha256=hashlib.sha256(content).hexdigest(), content=content.decode()
        )
        item = Item(EntryKind.CONFLICT, f"conflict:{key}:{body.sha256}", _dump(body))
        self._waiting.append(item)
        self.flush()

    def _append(self) -> None:
        self._store.append(
            self._investigation,
            self._waiting,
            recorded_us=clock.now_us(),
            fence=self.fence,
        )

    def _storable(self, item: Item) -> Item:
        """The item, or where it cannot be stored a record that says so and measures nothing."""
        try:
            if item.kind != EntryKind.OBSERVATION or len(encode(item.body)) <= MAX_BODY:
                return item
            why = "its record is too large"
        except CanonicalError as error:
            why = str(error)
        nothing = self._matchers.find(stdout=b"", stderr=b"", files={})
        body = {
            **item.body,
            "ending": str(Ending.WORKER_LOST),
            "code": None,
            "max_rss_kb": None,
            "stdout": _NOTHING,
            "stderr": _NOTHING,
            "files": [],
            "findings": [finding.model_dump() for finding in nothing],
            "knobs": [],
            "detail": f"what the trial left cannot be recorded: {why}"[:500],
        }
        return Item(item.kind, item.key, body)

    def _add(self, body: dict[str, Any], blobs: tuple[Blob, ...], *, key: str) -> None:
        if not self._waiting:
            self._waiting_since = clock.monotonic_us()
        self._waiting.append(Item(EntryKind.OBSERVATION, key, body, blobs))
        recorded, unresolved = self.counts
        self.counts = Counts(recorded + 1, unresolved + self._is_unresolved(body))

    def _is_unresolved(self, body: dict[str, Any]) -> bool:
        facts = facts_of(body, self._symptom.name, timed=self._symptom.kind == "duration")
        known = self._unresolved.get(facts)
        if known is None:
            known = read(self._symptom, facts).outcome is Outcome.UNRESOLVED
            if self._symptom.kind != "duration":
                self._unresolved[facts] = known
        return known

    def _item(self, report: Report) -> tuple[dict[str, Any], tuple[Blob, ...]]:
        """The observation as it is stored, and the bytes that it names."""
        blobs: list[Blob] = []
        out, stdout = _stream(report.stdout, blobs)
        err, stderr = _stream(report.stderr, blobs)
        contents = {file.path: file.content for file in report.files}
        findings = self._matchers.find(stdout=out, stderr=err, files=contents)
        knobs: Sequence[tuple[str, str]] = ()
        missed: Sequence[str] = ()
        if report.ending in _MEASURED:
            knobs, missed = self._check_knobs(report.condition, dict(report.evidence))
        body = {
            "trial": report.number,
            "block": report.block,
            "condition": report.condition,
            "attempt": report.attempt,
            "seed": report.seed,
            "worker": f"{self._host}/{report.slot}",
            "ending": str(report.ending),
            "code": report.code,
            "started_us": report.started_us,
            "duration_us": report.duration_us,
            "cpu_us": report.cpu_us,
            "max_rss_kb": report.max_rss_kb,
            "leftovers": report.leftovers,
            "stdout": stdout,
            "stderr": stderr,
            "files": [_file(file, blobs) for file in report.files],
            "findings": [finding.model_dump() for finding in findings],
            "knobs": [{"name": name, "value": _text(value)} for name, value in knobs],
            "knobs_not_applied": list(missed),
            "detail": _text(report.detail),
        }
        return body, tuple(blobs)


def _stream(captured: Captured, blobs: list[Blob]) -> tuple[bytes, dict[str, Any]]:
    if not captured.size:
        return b"", _NOTHING
    data, truncated = stored_stream(captured)
    sha256 = hashlib.sha256(data).hexdigest()
    blobs.append(Blob(sha256, data))
    facts = {
        "sha256": sha256,
        "size": captured.size,
        "stored": len(data),
        "truncated": truncated,
    }
    return data, facts


def _file(file: KeptFile, blobs: list[Blob]) -> dict[str, Any]:
    sha256 = None
    if file.content is not None:
        sha256 = hashlib.sha256(file.content).hexdigest()
        if file.content:
            blobs.append(Blob(sha256, file.content))
    return {"path": _text(file.path), "size": file.size, "sha256": sha256}


MAX_BODY = 1024 * 1024
"""Bytes of a record; what is longer is not the facts of a trial but an attack on the ledger."""


def _text(found: str) -> str:
    """Text that canonical JSON can carry: a file name may hold bytes that are not UTF-8."""
    return found.encode("utf-8", "backslashreplace").decode("utf-8")


def _lost_report(order: Order, *, slot: int, ending: Ending, detail: str) -> Report:
    nothing = Captured(b"", b"", 0)
    return Report(
        number=order.number,
        attempt=order.attempt,
        condition=order.condition,
        block=order.block,
        seed=order.seed,
        slot=slot,
        ending=ending,
        code=None,
        started_us=0,
        duration_us=0,
        cpu_us=0,
        max_rss_kb=None,
        leftovers=0,
        stdout=nothing,
        stderr=nothing,
        files=(),
        evidence=(),
        detail=detail,
    )


def _dump(record: Conflict | Intent | NeverStarted | LateResult) -> dict[str, Any]:
    return record.model_dump(mode="json")
