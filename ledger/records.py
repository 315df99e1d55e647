"""What was seen: the records that a ledger holds. Facts only; what they mean is read by policies."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from matrices import Digest, Integer, Natural, Record, Setting


class EntryKind(StrEnum):
    """What an entry of a ledger says."""

    PLAN = "plan"
    APPROVAL = "approval"
    INTENT = "intent"
    ATTEMPT_NEVER_STARTED = "attempt_never_started"
    OBSERVATION = "observation"
    LATE_RESULT = "late_result"
    CONFLICT = "conflict"
    BLOB_PURGED = "blob_purged"
    UNSEALED = "unsealed"
    PROOF_ATTEMPT = "proof_attempt"
    IMPORTED = "imported"
    VERDICT = "verdict"
    NOTE = "note"
    CLOSED = "closed"


class Ending(StrEnum):
    """How an attempt ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIME_LIMIT = "time_limit"
    NOT_STARTED = "not_started"
    """The command could not be started: no such program, no permission."""
    SETUP_FAILED = "setup_failed"
    """The world of the trial could not be made: no space, no mount."""
    CANCELLED = "cancelled"
    """The trial was killed because a person or an early stop asked for it."""
    WORKER_LOST = "worker_lost"
    DRIVER_LOST = "driver_lost"


class StreamFacts(Record):
    """What was captured of one output stream."""

    sha256: Digest
    """Of the stored bytes, which are the head and the tail where the stream was longer."""
    size: Natural
    """The true length in bytes."""
    stored: Natural
    truncated: bool


class FileFacts(Record):
    """A file that the trial left in its output folder."""

    path: str
    size: Natural
    sha256: Digest | None
    """`None` where the file was larger than what is stored whole."""


class Finding(Record):
    """What a matcher saw, before anyone says what it means."""

    symptom: str
    name: str
    value: str


class Observation(Record):
    """The facts of one attempt.

    The times are microseconds; `started_us` counts from the epoch and is never used for order.
    """

    trial: Natural
    block: Natural
    condition: Natural
    attempt: Natural
    seed: Natural
    worker: str
    """Where it ran: the host and the slot."""
    ending: Ending
    code: Integer | None
    """The exit code, the signal number, or the error number of a start that failed."""
    started_us: Natural
    duration_us: Natural
    cpu_us: Natural
    max_rss_kb: Natural | None
    """`None` where the kernel's figure is that of the process that started the trial."""
    leftovers: Natural
    """Processes that the command left behind and that were killed."""
    stdout: StreamFacts
    stderr: StreamFacts
    files: tuple[FileFacts, ...] = ()
    findings: tuple[Finding, ...] = ()
    knobs: tuple[Setting, ...] = ()
    """What the child really had, for knobs that leave evidence."""
    knobs_not_applied: tuple[str, ...] = ()
    detail: str = ""


class Approval(Record):
    """Who approved which plan, and how."""

    plan: Digest
    by: str
    method: Literal["self", "token", "base-branch"]
    seal: str = ""
    """For `self`: made with a secret of the approver, so that only they can tell it from another."""


class Intent(Record):
    """Blocks that may start after this entry is durable; before it none of them did."""

    session: str
    """One start of the driver."""
    boot: str
    """The kernel's boot id: after another boot nothing can be known of an unsynced spool."""
    first_block: Natural
    end_block: Natural
    """One past the last block."""
    place: tuple[Setting, ...] = ()
    """Facts of the host, in the first intent of a session."""


class NeverStarted(Record):
    """An attempt that provably never started, so that it may be tried again."""

    trial: Natural
    attempt: Natural
    detail: str


class LateResult(Record):
    """Evidence of a started attempt that turned up after its trial was closed; it does not count."""

    trial: Natural
    attempt: Natural
    observation: Observation


class Conflict(Record):
    """A second content under the key of an earlier entry; it blocks a positive verdict."""

    key: str
    sha256: Digest
    content: str
    """The refused body, as canonical JSON text."""


class Unsealed(Record):
    """Outcomes were looked at before the policy allowed a look."""

    by: str
    after_trials: Natural


class VerdictIssued(Record):
    """A verdict that was issued here over the first `size` entries."""

    policy: str
    size: Natural
    root: Digest
    verdict: str
    """The verdict as canonical JSON text."""


class Note(Record):
    """Free text by a person or by the engine."""

    by: str
    text: str


class StopReason(StrEnum):
    """Why no more trials were started."""

    BUDGET = "budget"
    WALL_TIME = "wall_time"
    POLICY = "policy"
    CANCELLED = "cancelled"


class Closed(Record):
    """The investigation takes no more trials."""

    reason: StopReason
    detail: str = ""


Key = Annotated[str, Field(min_length=1, max_length=200)]
"""What makes an entry unique within its investigation."""


class Entry(Record):
    """One line of a ledger. The canonical bytes of this record are what is stored and hashed."""

    v: Literal[1] = 1
    investigation: str = Field(pattern=r"^iv_[0-9a-f]{32}$")
    seq: Natural
    kind: EntryKind
    key: Key
    recorded_us: Natural
    body: dict[str, object]
    """The canonical form of the record that `kind` names. Read it with that record's class."""


def observation_key(trial: int, attempt: int) -> str:
    """The key under which an attempt's terminal record is stored once."""
    return f"obs:{trial}:{attempt}"
