"""Knobs: what a level can set about the world of a trial, and proof that it took."""

from reproduce.knobs.model import Availability, Evidence, Knob, WorldDraft
from reproduce.knobs.registry import (
    KNOBS,
    KnobRow,
    apply_knobs,
    knob_evidence,
    knob_named,
    knobs_table,
    merge_knobs,
    neutral,
    parse_knob,
    probe_knobs,
    with_neutral,
)

__all__ = [
    "KNOBS",
    "Availability",
    "Evidence",
    "Knob",
    "KnobRow",
    "WorldDraft",
    "apply_knobs",
    "knob_evidence",
    "knob_named",
    "knobs_table",
    "merge_knobs",
    "neutral",
    "parse_knob",
    "probe_knobs",
    "with_neutral",
]
