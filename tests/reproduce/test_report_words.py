import re

import pytest

from policies import Reason, Status, VerdictReason
from reproduce.errors import ExitCode
from reproduce.report import words
from reproduce.report.model import exit_code_of
from reproduce.report.reasons import UNRESOLVED_REASONS, VERDICT_REASONS
from reproduce.testing.account_cases import CASES, account

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


def test_unresolved_trials_are_named_where_a_limit_leaves_them_out() -> None:
    assert words.ruled_out(account("pinned"))[0].endswith("95 %, 1 unresolved left out)")


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
