"""The matchers of a plan, applied to what was stored of an attempt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from ledger.records import Finding
from matrices import (
    DurationSymptom,
    ExitCodeSymptom,
    JunitSymptom,
    OutputSymptom,
    Stream,
    Symptom,
    TimeoutSymptom,
)
from reproduce.matching.patterns import Pattern, compile_pattern
from reproduce.matching.streams import Stretch, stretches
from reproduce.matching.tracebacks import ends_unloaded

SEEN = "seen"
ABSENT = "absent"


class Stored(NamedTuple):
    """What was stored of an attempt."""

    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes | None]


_Finder: TypeAlias = Callable[[Stored], tuple[Finding, ...]]


class Matchers:
    """The matchers of some symptoms, compiled once; they need the stored bytes and nothing else."""

    def __init__(self, symptoms: Sequence[Symptom]) -> None:
        """Compiles every pattern.

        Raises:
            UsageError: a pattern is refused; says which and why.
        """
        finders = (_finder(symptom) for symptom in symptoms)
        self._finders = tuple(finder for finder in finders if finder is not None)

    def find(
        self, *, stdout: bytes, stderr: bytes, files: Mapping[str, bytes | None]
    ) -> tuple[Finding, ...]:
        """What the symptoms' matchers see, in the order of the symptoms.

        `files` holds what the attempt left in `{out}`; `None` marks a file that was too large to
        be stored whole.
        """
        stored = Stored(stdout, stderr, files)
        found: tuple[Finding, ...] = ()
        for finder in self._finders:
            found += finder(stored)
        return found


def keep_files(symptoms: Iterable[Symptom]) -> tuple[str, ...]:
    """The paths within `{out}` that the matchers of these symptoms read, sorted."""
    return tuple(sorted({one.file for one in symptoms if isinstance(one, JunitSymptom)}))


def _finder(symptom: Symptom) -> _Finder | None:
    match symptom:
        case ExitCodeSymptom():
            return _load_finder(symptom)
        case OutputSymptom():
            return _output_finder(symptom)
        case TimeoutSymptom():
            alive = compile_pattern(symptom.alive, place=_place(symptom, "alive"))
            return _pattern_finder(symptom.name, symptom.stream, (("alive", alive),))
        case JunitSymptom():
            return _junit_finder(symptom)
        case DurationSymptom():
            return None
        case _:
            assert_never(symptom)


def _place(symptom: Symptom, key: str) -> str:
    # A lone symptom is written as `[symptom]`, which is also its name.
    return f"symptom.{key}" if symptom.name == "symptom" else f"symptom.{symptom.name}.{key}"


def _load_finder(symptom: ExitCodeSymptom) -> _Finder:
    found = (Finding(symptom=symptom.name, name="harness", value=SEEN),)

    def find(stored: Stored) -> tuple[Finding, ...]:
        if ends_unloaded(stored.stderr) or ends_unloaded(stored.stdout):
            return found
        return ()

    return find


def _output_finder(symptom: OutputSymptom) -> _Finder:
    patterns = [("pattern", compile_pattern(symptom.pattern, place=_place(symptom, "pattern")))]
    if symptom.clean is not None:
        patterns.append(("clean", compile_pattern(symptom.clean, place=_place(symptom, "clean"))))
    return _pattern_finder(symptom.name, symptom.stream, patterns)


def _pattern_finder(
    symptom: str, stream: Stream, patterns: Sequence[tuple[str, Pattern]]
) -> _Finder:
    made = [
        (
            pattern,
            Finding(symptom=symptom, name=name, value=SEEN),
            Finding(symptom=symptom, name=name, value=ABSENT),
        )
        for name, pattern in patterns
    ]

    def find(stored: Stored) -> tuple[Finding, ...]:
        parts = _parts(stream, stored)
        return tuple(seen if pattern.seen_in(parts) else absent for pattern, seen, absent in made)

    return find


def _parts(stream: Stream, stored: Stored) -> tuple[Stretch, ...]:
    match stream:
        case Stream.STDOUT:
            return stretches(stored.stdout)
        case Stream.STDERR:
            return stretches(stored.stderr)
        case Stream.ANY:
            return stretches(stored.stdout) + stretches(stored.stderr)
        case _:
            assert_never(stream)


def _junit_finder(symptom: JunitSymptom) -> _Finder:
    # Loaded for the plans that read reports; the others start faster.
    from reproduce.matching import junit  # noqa: PLC0415

    message = compile_pattern(symptom.message, place=_place(symptom, "message"))
    case = junit.wanted(symptom.test, message)

    def find(stored: Stored) -> tuple[Finding, ...]:
        if symptom.file not in stored.files:
            said = junit.Said.NO_FILE
        else:
            report = stored.files[symptom.file]
            said = junit.Said.TOO_LARGE if report is None else junit.said_of(case, report)
        return (Finding(symptom=symptom.name, name="case", value=said.value),)

    return find
