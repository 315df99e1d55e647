import pytest

from ledger.records import Ending
from matrices import DurationSymptom, ExitCodeSymptom, JunitSymptom, OutputSymptom, Symptom
from policies import Reason
from policies.reading_v1 import CLEAN, MATCHED, SEEN, Facts, Read, read, unresolved

ANY_EXIT = OutputSymptom(pattern="LOST", clean="HELD")
EXIT_0 = OutputSymptom(pattern="LOST", clean="HELD", exit=(0,))
SYMPTOMS: dict[str, Symptom] = {
    "output": OutputSymptom(pattern="LOST", clean_exit=(0,)),
    "exit-code": ExitCodeSymptom(matched=(1,), clean=(0,), declared=True),
    "junit": JunitSymptom(test="a", message="b"),
    "duration": DurationSymptom(longer_than_us=10, exit=(0,)),
}


def facts(ending: str, code: int | None, *seen: str) -> Facts:
    found = (*((name, SEEN) for name in seen), ("case", "clean"))
    return Facts(ending, code, 1, False, False, found, False)  # noqa: FBT003


@pytest.mark.parametrize("symptom", SYMPTOMS.values(), ids=SYMPTOMS.keys())
@pytest.mark.parametrize("ending", [Ending.EXITED, Ending.SIGNALLED, "evaporated"])
def test_an_end_that_is_not_known_is_not_a_clean_one(symptom: Symptom, ending: str) -> None:
    code = 0 if ending == "evaporated" else None

    assert read(symptom, facts(ending, code)) == unresolved(Reason.HARNESS_ERROR)
    assert read(symptom, facts(Ending.EXITED, 0)) == CLEAN


@pytest.mark.parametrize(
    ("symptom", "ending", "code", "expected"),
    [
        (ANY_EXIT, Ending.EXITED, 1, MATCHED),
        (ANY_EXIT, Ending.EXITED, 70, MATCHED),
        (ANY_EXIT, Ending.SIGNALLED, 6, MATCHED),
        (ANY_EXIT, Ending.EXITED, 0, unresolved(Reason.CONFLICTING_EVIDENCE)),
        (EXIT_0, Ending.EXITED, 0, MATCHED),
        (EXIT_0, Ending.EXITED, 1, unresolved(Reason.CONFLICTING_EVIDENCE)),
    ],
)
def test_a_pattern_goes_with_any_exit_but_0_unless_exits_are_declared(
    symptom: OutputSymptom, ending: Ending, code: int, expected: Read
) -> None:
    assert read(symptom, facts(ending, code, "pattern")) == expected
