import re
from dataclasses import replace
from typing import Any

import pytest

from matrices import PolicyRef, Setting
from policies import Reason, Status, VerdictReason
from reproduce.errors import ExitCode
from reproduce.report import words
from reproduce.report.as_json import verdict_json
from reproduce.report.markdown import verdict_markdown
from reproduce.report.model import Account, exit_code_of
from reproduce.report.reasons import UNRESOLVED_REASONS, VERDICT_REASONS
from reproduce.testing.account_cases import CASES, GATES, account
from reproduce.testing.accounts import BINOMIAL, STRICT_1, Counted, account_of

TOO_STRONG = re.compile(
    r"\b(fixed|proves?|proven|certain|always|never|gone|cause|safe|guaranteed)\b", re.IGNORECASE
)
POSITIVE = re.compile(r"rate is higher|finds a higher rate|calls pinned")


def test_every_reason_is_explained_with_a_way_out() -> None:
    assert set(VERDICT_REASONS) == set(VerdictReason)
    assert set(UNRESOLVED_REASONS) == set(Reason)
    for advice in (*VERDICT_REASONS.values(), *UNRESOLVED_REASONS.values()):
        assert advice.meaning
        assert advice.remedy
        assert not (advice.meaning + advice.remedy).endswith(".")


def test_the_cases_reach_every_status() -> None:
    assert {case.status for case in CASES.values()} == set(Status)


@pytest.mark.parametrize("name", CASES)
def test_no_claim_is_stronger_than_its_verdict(name: str) -> None:
    shown = account(name)
    claim = words.claim(shown)

    assert not TOO_STRONG.search(claim)
    assert claim.startswith("The symptom matched in ")
    assert claim.endswith(".")
    if shown.verdict.status in (Status.UNRESOLVED, Status.NOT_REPRODUCED):
        assert not POSITIVE.search(claim)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("reason", [None, *VerdictReason])
@pytest.mark.parametrize("case", ["pinned", "partial-strict"])
def test_every_status_with_every_reason_has_a_sentence(
    case: str, status: Status, reason: VerdictReason | None
) -> None:
    shown = account(case)
    reasons = () if reason is None else (reason,)
    contrast = shown.headline().model_copy(update={"status": status, "reasons": reasons})
    update = {"status": status, "reasons": reasons, "contrasts": (contrast,)}

    claim = words.claim(shown._replace(verdict=shown.verdict.model_copy(update=update)))

    assert claim.count(": ") >= 1
    assert not TOO_STRONG.search(claim)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if "strict" in c.policy.name])
def test_a_policy_without_an_error_rate_claims_none(name: str) -> None:
    assert "error rate at most" not in words.claim(account(name))


def test_zero_matches_bound_the_rate_and_no_more() -> None:
    assert words.ruled_out(account("not-reproduced"))[0] == (
        "0/200 under treatment (workers=eight): the rate is below 1.5 % (one-sided, 95 %)"
    )


@pytest.mark.parametrize("name", ["unresolved-budget", "unsealed", "unresolved-conflict"])
def test_nothing_is_ruled_out_by_a_run_that_was_cut_short_or_conflicts(name: str) -> None:
    assert words.ruled_out(account(name)) == ()
    assert words.among_valid(account(name)) == ()


def test_a_limit_that_leaves_unresolved_trials_out_rules_nothing_out() -> None:
    shown = account("pinned")

    (line,) = words.among_valid(shown)

    assert words.ruled_out(shown) == ()
    assert line.startswith("among valid trials (1 unresolved left out): 0/59 under control")
    assert line in words.not_shown(shown)
    for document in (verdict_json(shown), verdict_markdown(shown)):
        assert "among valid trials" in document
        assert "ruled out" not in document.lower()


WHOLE = replace(CASES["pinned"], control=Counted(0, 60, limits=("0.0000", "0.0488")))
"""A difference with both limits and no unresolved trial."""

DIFFERENCE = "a difference above +34.1 points (one-sided, 95 %)"


def test_a_difference_is_ruled_out_where_every_trial_was_read() -> None:
    assert DIFFERENCE in words.ruled_out(account_of(WHOLE))


@pytest.mark.parametrize(
    "changed",
    [
        {"treatment": Counted(14, 45, ((Reason.TIME_LIMIT, 1),))},
        {"control": Counted(0, 59, ((Reason.TIME_LIMIT, 1),))},
        {"control": Counted(0, 59, missing=1)},
        {"reasons": (VerdictReason.CONFLICT,)},
        {"reasons": (VerdictReason.UNSEALED,)},
        {"gates": (GATES[0].model_copy(update={"holds": False}), *GATES[1:])},
    ],
)
def test_no_difference_is_ruled_out_by_trials_that_are_not_whole(changed: dict[str, Any]) -> None:
    assert DIFFERENCE not in words.ruled_out(account_of(replace(WHOLE, **changed)))


def with_alpha(alpha: str, *reasons: VerdictReason) -> Account:
    settings = tuple(
        Setting(name=one.name, value=alpha if one.name == "alpha" else one.value)
        for one in BINOMIAL.parameters
    )
    policy = PolicyRef(name=BINOMIAL.name, parameters=settings)
    return account_of(replace(WHOLE, policy=policy, reasons=reasons))


@pytest.mark.parametrize(
    ("alpha", "said"),
    [("0.05", "5 %"), ("0.000055", "0.0055 %"), ("0.01239999", "1.239999 %"), ("0.5", "50 %")],
)
def test_the_claim_states_the_error_rate_that_was_declared(alpha: str, said: str) -> None:
    assert f"(one-sided error rate at most {said})" in words.claim(with_alpha(alpha))


@pytest.mark.parametrize("name", ["pinned", "partial-fragile", "weak-hint", "not-reproduced"])
def test_after_an_early_look_no_claim_keeps_its_error_rate(name: str) -> None:
    claim = words.claim(account_of(replace(CASES[name], reasons=(VerdictReason.UNSEALED,))))

    assert "looked at before the policy allowed a look" in claim
    assert "the declared error rate no longer holds" in claim
    assert re.search(r"error rate at most [^;]*\)", claim) is None


@pytest.mark.parametrize("name", ["pinned", "not-reproduced"])
def test_the_error_rate_of_a_policy_that_was_not_declared_is_nominal(name: str) -> None:
    shown = account(name)._replace(declared_policy=STRICT_1)

    assert "nominal: this policy was not declared before the run" in words.claim(shown)
    assert "nominal" not in words.claim(account(name))


def test_missing_trials_are_counted_in_the_claim() -> None:
    cut = replace(
        CASES["pinned-strict"],
        treatment=Counted(55, 0, missing=5),
        control=Counted(0, 59, missing=1),
        reasons=(VerdictReason.BUDGET,),
    )

    assert words.claim(account_of(cut)).endswith("; 6 of 120 planned trials are missing.")


def test_a_conflict_is_part_of_the_claim() -> None:
    reasons = (VerdictReason.CONFLICT, VerdictReason.SYMPTOM_IN_CONTROL)
    case = replace(CASES["unresolved-conflict"], reasons=reasons)

    assert "the ledger holds two contents under one key" in words.claim(account_of(case))


def test_an_exclusion_says_up_to_which_difference_there_is_none() -> None:
    case = CASES["not-reproduced"]
    hung = Counted(0, 199, ((Reason.TIME_LIMIT, 1),))
    above = {**case.figures, "difference_upper": "0.102"}

    assert "; one of up to 1.5 points is not." in words.claim(account_of(case))
    for other in (replace(case, treatment=hung), replace(case, figures=above)):
        assert "; any smaller one is not." in words.claim(account_of(other))


def test_a_control_that_matched_is_not_lost_where_the_treatment_did_not() -> None:
    case = replace(
        CASES["not-reproduced-strict"],
        control=Counted(2, 8),
        reasons=(VerdictReason.SYMPTOM_IN_CONTROL,),
    )

    assert "it matched in the control" in words.claim(account_of(case))


def test_independence_is_said_once_to_be_assumed() -> None:
    for name in ("pinned", "partial-strict"):
        assumed = [line for line in words.not_shown(account(name)) if "independence" in line]
        assert len(assumed) == 1


def test_the_other_investigations_of_an_issue_cannot_hide() -> None:
    assert words.siblings(account("weak-hint")).startswith("19 other investigations")


def test_an_early_look_is_part_of_the_claim() -> None:
    assert "looked at before the policy allowed" in words.claim(account("unsealed"))


def test_one_policy_with_other_parameters_is_exploratory() -> None:
    shown = account("pinned")
    other = shown.verdict.policy.model_copy(update={"parameters": ()})
    moved = shown._replace(declared_policy=other, others=())

    assert "exploratory" in words.which_declared(moved)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("pinned", ExitCode.DONE),
        ("partial-fragile", ExitCode.DONE),
        ("not-reproduced", ExitCode.DONE),
        ("weak-small-effect", ExitCode.DONE),
        ("weak-strict", ExitCode.DONE),
        ("weak-hint", ExitCode.NOT_ENOUGH),
        ("unresolved-control", ExitCode.NOT_ENOUGH),
    ],
)
def test_only_a_hint_and_an_unresolved_verdict_are_not_enough(name: str, code: ExitCode) -> None:
    assert exit_code_of(account(name).verdict) is code


def test_an_exclusion_is_decided_by_its_own_figure_and_not_by_a_gate_of_the_opposite_claim() -> (
    None
):
    verdict = account("not-reproduced").verdict

    decided = words.deciding(verdict.contrasts, verdict.headline)

    assert decided == "the smallest effect is excluded: p = 1.41e-10"


@pytest.mark.parametrize(
    ("number", "said"), [(None, None), (0, "fragile"), (1, "1 unresolved"), (7, "7 unresolved")]
)
def test_the_tipping_number_is_said_in_words(number: int | None, said: str | None) -> None:
    contrast = account("pinned").headline().model_copy(update={"tipping": number})

    found = words.tipping(contrast)

    assert (found is None) == (said is None)
    assert found is None or found.startswith(said or "")
