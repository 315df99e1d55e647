"""`switch_interval`: how long a Python thread keeps the interpreter."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from reproduce.errors import UsageError
from reproduce.knobs.model import Evidence, Knob, WorldDraft, literal, loaded

PRELOAD = Path(__file__).resolve().parent / "preload"
"""The folder whose `sitecustomize` sets the interval in a target's interpreter."""

_LONGEST_S = 10

_TOLERANCE_S = Decimal("0.000001")
"""CPython keeps the interval in whole microseconds and rounds down."""


class SwitchInterval(Knob):
    """`sys.setswitchinterval` in every Python process of the trial.

    Works for interpreters that read `PYTHONPATH`; one that is started with `-E`, `-I` or `-S`
    leaves no evidence, and neither does a command that is not Python.
    """

    name = "switch_interval"
    summary = "the time after which a Python thread gives way, in seconds"
    rule = f"a decimal number of seconds as text, at least 0.000001 and at most {_LONGEST_S}"
    example = '"0.000001"'
    mechanism = "a sitecustomize module at the head of PYTHONPATH"
    schema = TypeAdapter(
        Annotated[str, StringConstraints(pattern=r"\A[0-9]{1,2}(\.[0-9]{1,6})?\z")]
    )
    neutral = '"0.005"'
    wraps = True
    evidence_file = "switch_interval"

    def check(self, value: str, *, place: str) -> None:
        """Refuses an interval that CPython rounds to none, or one without effect."""
        if not 0 < Decimal(loaded(value)) <= _LONGEST_S:
            message = f"an interval of {loaded(value)} s is out of range: {self.rule}"
            raise UsageError(message, place=place, hint="CPython's own interval is 0.005")

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Puts our `sitecustomize` first; it runs the target's own afterwards."""
        path = literal(str(PRELOAD))
        before = draft.env.get("PYTHONPATH")
        draft.env["PYTHONPATH"] = f"{path}:{before}" if before else path
        draft.env["REPRODUCE_SWITCH_INTERVAL"] = loaded(value)
        draft.env["REPRODUCE_KNOBS"] = "{knobs}"
        draft.evidence.append(self.evidence_file)

    def evidence(self, value: str, reported: Mapping[str, str]) -> Evidence:
        """The interval that the first interpreter of the trial read back."""
        found = reported.get(self.evidence_file)
        if found is None:
            return Evidence(applied=False, shown="no Python interpreter read it")
        shown = found.strip()
        try:
            distance = abs(Decimal(shown) - Decimal(loaded(value)))
        except ArithmeticError:
            return Evidence(applied=False, shown=shown[:100])
        return Evidence(applied=distance <= _TOLERANCE_S, shown=shown)
