"""What it proves: pure, versioned reducers from records to verdicts."""

from policies.evidence import Evidence, evidence_of, tallies
from policies.model import (
    ContrastVerdict,
    Figure,
    Gate,
    Outcome,
    PolicyError,
    RateFigure,
    Reason,
    Status,
    Tally,
    Verdict,
    VerdictReason,
)

__all__ = [
    "ContrastVerdict",
    "Evidence",
    "Figure",
    "Gate",
    "Outcome",
    "PolicyError",
    "RateFigure",
    "Reason",
    "Status",
    "Tally",
    "Verdict",
    "VerdictReason",
    "evidence_of",
    "tallies",
]
