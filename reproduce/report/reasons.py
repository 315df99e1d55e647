"""What each reason means and what to do about it, in words."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from policies import Reason, VerdictReason


class Advice(NamedTuple):
    """What a reason means, and what a person can do."""

    meaning: str
    remedy: str


VERDICT_REASONS: Mapping[VerdictReason, Advice] = MappingProxyType(
    {
        VerdictReason.BUDGET: Advice(
            "planned trials are missing, and what they would have shown is not known",
            "run the same plan again, which keeps finished trials; seal a new plan where the wall "
            "time is spent",
        ),
        VerdictReason.TOO_FEW_VALID: Advice(
            "too few trials read as matched or clean",
            "look at the reasons of the unresolved trials, mend the command or the symptom, "
            "then seal a new plan",
        ),
        VerdictReason.CONTROL_UNRESOLVED: Advice(
            "too many control trials are unresolved to know how the control behaves",
            "look at the reasons of the unresolved control trials, then seal a new plan",
        ),
        VerdictReason.TREATMENT_UNRESOLVED: Advice(
            "too many treatment trials are unresolved to know how the treatment behaves",
            "look at the reasons of the unresolved treatment trials, then seal a new plan",
        ),
        VerdictReason.FRAGILE: Advice(
            "the claim does not survive the worst reading, with every unresolved treatment trial "
            "as clean and every unresolved control trial as matched",
            "mend what leaves trials unresolved and run a new plan",
        ),
        VerdictReason.FLAGGED: Advice(
            "a diagnostic of the runs does not hold, such as independence of the trials",
            "see the diagnostics among the gates; spread the trials over time, seeds or workers",
        ),
        VerdictReason.SMALL_EFFECT: Advice(
            "the difference is real but smaller than the smallest effect that the plan asked for",
            "look for a condition that raises the rate, or declare a smaller `min_effect`",
        ),
        VerdictReason.HINT: Advice(
            "the symptom was seen, but no error rate is claimed for it",
            "declare a new plan with more trials; this one cannot be extended after the look",
        ),
        VerdictReason.SYMPTOM_IN_CONTROL: Advice(
            "the symptom is in the control as well: the contrast is not its trigger, or the "
            "place is broken",
            "check that the control is sound, or vary another factor",
        ),
        VerdictReason.INCONCLUSIVE: Advice(
            "the trials neither show a difference nor rule out the smallest effect that matters",
            "declare a new plan with more trials; this one cannot be extended after the look",
        ),
        VerdictReason.CONFLICT: Advice(
            "the ledger holds two contents under one key, so the records cannot be relied on",
            "find which of the two writers is wrong with `reproduce ledger log`",
        ),
        VerdictReason.UNSEALED: Advice(
            "outcomes were looked at before the policy allowed a look",
            "declare a new plan and run it without looking",
        ),
        VerdictReason.NO_SYMPTOM_DECLARED: Advice(
            "no symptom was declared: exit 1 was read as matched and exit 0 as clean",
            "say what the bug looks like, with `--match` and `--clean` or in `[symptom]`",
        ),
    }
)

UNRESOLVED_REASONS: Mapping[Reason, Advice] = MappingProxyType(
    {
        Reason.UNRELATED_FAILURE: Advice(
            "the command broke without showing the symptom",
            "read the output of such a trial; declare what a clean run shows",
        ),
        Reason.CONFLICTING_EVIDENCE: Advice(
            "the trial showed the symptom and also spoke against it, such as by exit 0",
            "make the patterns and the declared exits exclude each other; declare `exit = [0]` if "
            "the bug exits 0",
        ),
        Reason.INCONCLUSIVE_EXIT: Advice(
            "the exit code is declared neither as matched nor as clean",
            "declare what that code means, or mend the command",
        ),
        Reason.TIME_LIMIT: Advice(
            "the time limit was reached, which is not the declared symptom",
            "raise `timeout_s`, or declare the time limit as the symptom",
        ),
        Reason.SETUP_FAILED: Advice(
            "the world of the trial could not be made",
            "see the detail of such a trial; `reproduce doctor` checks the machine",
        ),
        Reason.KNOB_UNAVAILABLE: Advice(
            "this machine cannot set a knob that the plan asks for",
            "`reproduce knobs probe` says what is lacking",
        ),
        Reason.KNOB_NOT_APPLIED: Advice(
            "the child did not have what a knob should have given it",
            "compare the recorded knob evidence of such a trial with the plan",
        ),
        Reason.NOT_STARTED: Advice(
            "the command could not be started",
            "check that the program is on the `PATH` of the plan and may be run",
        ),
        Reason.KILLED_BY_SIGNAL: Advice(
            "a signal that the plan does not declare ended the command",
            "declare the signal as matched if the crash is the symptom",
        ),
        Reason.OUT_OF_MEMORY: Advice(
            "the command was killed for lack of memory",
            "raise the memory limit or run fewer trials in parallel",
        ),
        Reason.OUTPUT_LIMIT: Advice(
            "the output was cut, and the symptom may stand in the part that was dropped",
            "make the command print less, or look in one stream only",
        ),
        Reason.HARNESS_ERROR: Advice(
            "what should have measured did not run, such as an import error or a case not found",
            "run the command once by hand and mend it",
        ),
        Reason.WORKER_LOST: Advice(
            "the worker that ran the trial was lost",
            "see whether the machine killed it; the trial is not started twice",
        ),
        Reason.DRIVER_LOST: Advice(
            "the driver died while the trial may have been running",
            "nothing to mend in the trial; it is not started twice",
        ),
        Reason.CANCELLED: Advice(
            "the trial was killed because someone asked for it",
            "let the trials that run finish: interrupt once, not twice",
        ),
        Reason.BUDGET: Advice(
            "the budget was spent before the trial could end",
            "raise `wall_s` or lower `trials` in a new plan",
        ),
    }
)
