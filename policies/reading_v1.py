"""`reading/1`: how the facts of an attempt read as an outcome.

Both matched and clean need positive evidence; everything else is unresolved with a reason. This
file is frozen: a change of meaning is a new version beside it.
"""

from collections.abc import Mapping
from typing import NamedTuple, assert_never

from ledger.records import Ending
from matrices import (
    DurationSymptom,
    ExitCodeSymptom,
    JunitSymptom,
    OutputSymptom,
    Stream,
    Symptom,
    TimeoutSymptom,
)
from policies.model import Outcome, Reason

NAME = "reading/1"

SEEN = "seen"
"""Value of a finding whose pattern was found; the other value is `absent`."""


class Facts(NamedTuple):
    """What a reading looks at, taken from an observation."""

    ending: str
    code: int | None
    duration_us: int
    stdout_truncated: bool
    stderr_truncated: bool
    findings: tuple[tuple[str, str], ...]
    """Name and value of each finding for the symptom that is read."""
    knob_missed: bool


class Read(NamedTuple):
    """An outcome, and the reason where it is unresolved."""

    outcome: Outcome
    reason: Reason | None = None


MATCHED = Read(Outcome.MATCHED)
CLEAN = Read(Outcome.CLEAN)


def unresolved(reason: Reason) -> Read:
    """An unresolved outcome with its reason."""
    return Read(Outcome.UNRESOLVED, reason)


_NEVER_MEASURED: Mapping[str, Reason] = {
    Ending.NOT_STARTED: Reason.NOT_STARTED,
    Ending.SETUP_FAILED: Reason.SETUP_FAILED,
    Ending.CANCELLED: Reason.CANCELLED,
    Ending.WORKER_LOST: Reason.WORKER_LOST,
    Ending.DRIVER_LOST: Reason.DRIVER_LOST,
}

_JUNIT: Mapping[str, Read] = {
    "message": MATCHED,
    "clean": CLEAN,
    "error": unresolved(Reason.UNRELATED_FAILURE),
    "other-message": unresolved(Reason.UNRELATED_FAILURE),
    "conflicting": unresolved(Reason.CONFLICTING_EVIDENCE),
    "skipped": unresolved(Reason.HARNESS_ERROR),
    "absent": unresolved(Reason.HARNESS_ERROR),
    "no-file": unresolved(Reason.HARNESS_ERROR),
    "empty": unresolved(Reason.HARNESS_ERROR),
    "unreadable": unresolved(Reason.HARNESS_ERROR),
    "too-large": unresolved(Reason.OUTPUT_LIMIT),
}
"""What a JUnit report said of the case. A case that did not run is a fault of the harness."""


_ENDED = (Ending.EXITED, Ending.SIGNALLED)
"""Endings that come with a code."""


def read(symptom: Symptom, facts: Facts) -> Read:
    """The outcome of one attempt for one symptom."""
    unread = _unread(facts)
    if unread is not None:
        return unresolved(unread)
    if isinstance(symptom, TimeoutSymptom):
        return _read_timeout(symptom, facts)
    if facts.ending == Ending.TIME_LIMIT:
        return unresolved(Reason.TIME_LIMIT)
    match symptom:
        case ExitCodeSymptom():
            return _read_exit_code(symptom, facts)
        case OutputSymptom():
            return _read_output(symptom, facts)
        case JunitSymptom():
            return _read_junit(facts)
        case DurationSymptom():
            return _read_duration(symptom, facts)
        case _:
            assert_never(symptom)


def _unread(facts: Facts) -> Reason | None:
    """Why an attempt shows nothing, whatever the symptom; `None` where it may."""
    never = _NEVER_MEASURED.get(facts.ending)
    if never is not None:
        return never
    if not _is_known(facts):
        return Reason.HARNESS_ERROR
    return Reason.KNOB_NOT_APPLIED if facts.knob_missed else None


def _is_known(facts: Facts) -> bool:
    """Whether it is known how the attempt ended: a code that is lacking is not exit 0."""
    if facts.ending in _ENDED:
        return facts.code is not None
    return facts.ending == Ending.TIME_LIMIT


def _exit(facts: Facts) -> int | None:
    """The exit code, or the signal number written negative as the symptoms declare it."""
    if facts.code is None:
        return None
    return -facts.code if facts.ending == Ending.SIGNALLED else facts.code


def _undeclared(facts: Facts, *, otherwise: Reason) -> Read:
    if facts.ending == Ending.SIGNALLED:
        return unresolved(Reason.KILLED_BY_SIGNAL)
    return unresolved(otherwise)


def _read_exit_code(symptom: ExitCodeSymptom, facts: Facts) -> Read:
    code = _exit(facts)
    # An interpreter that could not load the probe exits with 1 like the bug does; a shell that
    # could not run it exits with 126 or 127. Neither is a measurement.
    if ("harness", SEEN) in facts.findings:
        return unresolved(Reason.HARNESS_ERROR)
    if not symptom.declared and code in (126, 127):
        return unresolved(Reason.HARNESS_ERROR)
    if code in symptom.matched:
        return MATCHED
    if code in symptom.clean:
        return CLEAN
    return _undeclared(facts, otherwise=Reason.INCONCLUSIVE_EXIT)


def _truncated(stream: Stream, facts: Facts) -> bool:
    match stream:
        case Stream.STDOUT:
            return facts.stdout_truncated
        case Stream.STDERR:
            return facts.stderr_truncated
        case Stream.ANY:
            return facts.stdout_truncated or facts.stderr_truncated
        case _:
            assert_never(stream)


def _read_output(symptom: OutputSymptom, facts: Facts) -> Read:
    code = _exit(facts)
    pattern = ("pattern", SEEN) in facts.findings
    clean = ("clean", SEEN) in facts.findings or code in symptom.clean_exit
    if pattern:
        # A bug that exits 0 declares it: exit 0 mostly says that nothing went wrong.
        declared = code in symptom.exit if symptom.exit else code != 0
        if declared and not clean:
            return MATCHED
        return unresolved(Reason.CONFLICTING_EVIDENCE)
    # The symptom may stand in the part that was dropped.
    if _truncated(symptom.stream, facts):
        return unresolved(Reason.OUTPUT_LIMIT)
    if clean and (facts.ending == Ending.EXITED or code in symptom.clean_exit):
        return CLEAN
    return _undeclared(facts, otherwise=Reason.UNRELATED_FAILURE)


def _read_timeout(symptom: TimeoutSymptom, facts: Facts) -> Read:
    if facts.ending == Ending.TIME_LIMIT:
        if ("alive", SEEN) in facts.findings:
            return MATCHED
        if _truncated(symptom.stream, facts):
            return unresolved(Reason.OUTPUT_LIMIT)
        return unresolved(Reason.TIME_LIMIT)
    if _exit(facts) in symptom.clean:
        return CLEAN
    return _undeclared(facts, otherwise=Reason.INCONCLUSIVE_EXIT)


def _read_junit(facts: Facts) -> Read:
    if facts.ending == Ending.SIGNALLED:
        return unresolved(Reason.KILLED_BY_SIGNAL)
    for name, value in facts.findings:
        if name == "case":
            return _JUNIT.get(value, unresolved(Reason.HARNESS_ERROR))
    return unresolved(Reason.HARNESS_ERROR)


def _read_duration(symptom: DurationSymptom, facts: Facts) -> Read:
    if _exit(facts) not in symptom.exit:
        return _undeclared(facts, otherwise=Reason.INCONCLUSIVE_EXIT)
    return MATCHED if facts.duration_us > symptom.longer_than_us else CLEAN
