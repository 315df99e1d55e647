import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from policies.stats.regions import Count, region, scores

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics"


def square(i: int, n1: int, j: int, n0: int) -> Fraction:
    """Return sign(Z) * Z**2 up to a constant, exactly."""
    spread = (i + j) * (n1 + n0 - i - j)
    distance = i * n0 - j * n1
    return Fraction(distance * abs(distance), spread) if spread else Fraction(0)


def enumerated(treatment: Count, control: Count) -> list[int]:
    (x1, n1), (x0, n0) = treatment, control
    observed = square(x1, n1, x0, n0)
    columns = [
        [i for i in range(n1 + 1) if square(i, n1, j, n0) >= observed] for j in range(n0 + 1)
    ]
    return [min(column, default=n1 + 1) for column in columns]


def test_boundaries_agree_with_rational_ordering() -> None:
    rows = json.loads((GOLDEN / "two_arm_exact_p.json").read_text())["cases"]
    assert len(rows) == 130

    for row in rows:
        treatment, control = Count(row["x1"], row["n1"]), Count(row["x0"], row["n0"])
        expected = row["k_score"] or enumerated(treatment, control)

        assert region(treatment, control, margin=Fraction(0)).tolist() == expected


@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (4, 4), (7, 7), (6, 9), (9, 6)])
def test_every_table_of_a_small_design_has_the_region_of_its_ties(n1: int, n0: int) -> None:
    for x1 in range(n1 + 1):
        for x0 in range(n0 + 1):
            treatment, control = Count(x1, n1), Count(x0, n0)
            found = region(treatment, control, margin=Fraction(0)).tolist()

            assert found == enumerated(treatment, control)
            assert found == sorted(found)


def test_a_large_design_is_ordered_by_integers_beyond_64_bits() -> None:
    treatment, control = Count(300, 20_000), Count(0, 20_000)

    boundary = region(treatment, control, margin=Fraction(0)).tolist()

    observed = square(*treatment, *control)
    for j in range(0, 20_001, 1_999):
        first = boundary[j]
        if first <= treatment.valid:
            assert square(first, 20_000, j, 20_000) >= observed
        assert square(first - 1, 20_000, j, 20_000) < observed


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.3, 0.7, -0.1, -0.45, 0.999, -0.999])
def test_mirrored_tables_of_a_balanced_design_tie_at_every_margin(margin: float) -> None:
    n = 23
    i, j = (axis.ravel().astype(float) for axis in np.mgrid[0 : n + 1, 0 : n + 1])

    here = scores(i, n, j, n, margin=margin)
    there = scores(n - j, n, n - i, n, margin=margin)

    assert np.isfinite(here).all()
    assert here == pytest.approx(there, abs=1e-11, rel=1e-11)


def test_scores_at_a_margin_agree_with_forty_digits() -> None:
    rows = json.loads((GOLDEN / "two_arm_margin_p.json").read_text())["cases"]

    for row in rows:
        i, j = np.array([float(row["x1"])]), np.array([float(row["x0"])])
        value = scores(i, row["n1"], j, row["n0"], margin=float(row["delta0"]))[0]
        assert value == pytest.approx(float(row["z"]), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("margin", ["0.1", "-0.2", "0.9"])
def test_scores_rise_with_treatment_matches_and_fall_with_control_matches(margin: str) -> None:
    n1, n0 = 14, 11
    i, j = (axis.astype(float) for axis in np.mgrid[0 : n1 + 1, 0 : n0 + 1])

    table = scores(i, n1, j, n0, margin=float(margin))

    assert (np.diff(table, axis=0) > -1e-9).all()
    assert (np.diff(table, axis=1) < 1e-9).all()


@pytest.mark.parametrize("arm", [Count(0, 0), Count(3, 2), Count(-1, 4)])
def test_an_empty_arm_and_impossible_counts_have_no_region(arm: Count) -> None:
    with pytest.raises(ValueError, match=r"without valid trials|impossible"):
        region(arm, Count(0, 5), margin=Fraction(0))
    with pytest.raises(ValueError, match=r"without valid trials|impossible"):
        region(Count(0, 5), arm, margin=Fraction(0))
