from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import given, strategies as st

from policies import ContrastVerdict, Figure, Status
from reproduce.report.figures import (
    bar,
    difference,
    error_level,
    interval,
    labelled,
    level,
    one_sided,
    percent,
    points,
)
from reproduce.report.model import Arm
from reproduce.testing.account_cases import account
from reproduce.testing.accounts import Counted

PLAN = account("pinned").plan


def arm(counted: Counted) -> Arm:
    return Arm(PLAN.conditions[0], counted.tally(0, PLAN.conditions[0].role), counted.rate(0))


@given(st.decimals(min_value=0, max_value=1, places=6))
def test_limits_are_rounded_away_from_the_claim(share: Decimal) -> None:
    low = percent(str(share), rounding=ROUND_FLOOR).removesuffix(" %")
    high = percent(str(share), rounding=ROUND_CEILING).removesuffix(" %")

    assert Decimal(low) <= 100 * share <= Decimal(high)


def test_zero_of_two_hundred_reads_as_one_and_a_half_per_cent() -> None:
    assert interval(arm(Counted(0, 200, limits=("0.0000", "0.0149"))).rate) == "0.0–1.5 %"


def test_a_small_share_keeps_its_digits() -> None:
    assert percent("0.00149") == "0.15 %"
    assert percent("0.000149") == "0.015 %"


def test_a_figure_that_is_no_number_is_shown_as_it_is() -> None:
    assert percent("–") == level("–") == points("–") == "–"
    assert percent("NaN") == "NaN"


def test_each_limit_alone_holds_with_half_the_error() -> None:
    assert level("0.9") == "90 %"
    assert one_sided("0.9") == "95 %"
    assert level("0.9666666666666667") == "96.66 %"
    assert level("1") == "100 %"


def test_the_bar_spans_the_limits_and_marks_the_rate() -> None:
    quarter = arm(Counted(25, 75, limits=("0.1", "0.5")))

    assert bar(quarter, width=20) == "··├──■────┤·········"
    assert bar(quarter, width=20, unicode=False) == "..|--#----|........."


def test_the_bar_has_its_width_at_both_ends() -> None:
    for counted in (
        Counted(0, 0, limits=("0.0000", "1.0000")),
        Counted(9, 0, limits=("0.7169", "1.0000")),
        Counted(0, 9, limits=("0.0000", "0.2832")),
        Counted(3, 6),
    ):
        assert len(bar(arm(counted), width=20)) == 20
    assert "■" not in bar(arm(Counted(0, 0, limits=("0.0000", "1.0000"))), width=20)


def test_an_unknown_figure_is_shown_under_its_own_name() -> None:
    contrast = ContrastVerdict(
        contrast=0, status=Status.PARTIAL, figures=(Figure(name="odds_of_rain", value="7"),)
    )

    assert labelled(contrast) == (("odds of rain", "7"),)
    assert difference(contrast) is None


@pytest.mark.parametrize(
    ("present", "shown"),
    [
        ((), "+23.3 points"),
        (("difference_lower",), "+23.3 points (at least +13.7 points)"),
        (
            ("difference_upper", "difference_confidence"),
            "+23.3 points (at most +34.1 points, each one-sided at 95 %)",
        ),
    ],
)
def test_limits_that_are_not_given_are_not_shown(present: tuple[str, ...], shown: str) -> None:
    headline = account("pinned").headline()
    kept = tuple(f for f in headline.figures if f.name == "difference" or f.name in present)

    assert difference(headline.model_copy(update={"figures": kept})) == shown


def test_an_error_rate_keeps_every_digit_that_was_declared() -> None:
    assert error_level("0.05") == "5 %"
    assert error_level("0.050") == "5 %"
    assert error_level("0.12345678901234567890123456789012") == (
        "12.345678901234567890123456789012 %"
    )
    assert error_level("0.1") == "10 %"
    assert error_level("?") == "?"


@pytest.mark.parametrize("value", ["-0.0000", "-0.0003", "0"])
def test_no_difference_has_no_minus(value: str) -> None:
    assert points(value) == "+0.0 points"
