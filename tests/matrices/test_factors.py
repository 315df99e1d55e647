import itertools

import pytest
from hypothesis import given, strategies as st

from matrices import Factor, Level, MatrixError, Role, assign, expand, label


def factor(name, *levels):
    return Factor(name=name, levels=tuple(Level(name=level) for level in levels))


WORKERS = factor("workers", "eight", "one")
HASH = factor("hash", "random", "fixed", "zero")


def labels(conditions):
    return [label(condition) for condition in conditions]


def test_conditions_are_the_product_with_the_last_factor_fastest():
    assert labels(expand([WORKERS, HASH])) == [
        f"workers={w} hash={h}"
        for w, h in itertools.product(("eight", "one"), ("random", "fixed", "zero"))
    ]


def test_an_exclusion_removes_every_condition_that_agrees_with_it():
    kept = expand([WORKERS, HASH], exclude=[{"hash": ("random", "zero")}])

    assert labels(kept) == ["workers=eight hash=fixed", "workers=one hash=fixed"]


def test_an_inclusion_adds_back_what_was_excluded_once():
    kept = expand(
        [WORKERS, HASH],
        include=[{"workers": ("one",), "hash": ("zero",)}] * 2,
        exclude=[{"workers": ("one",)}],
    )

    assert labels(kept)[-1] == "workers=one hash=zero"
    assert len(kept) == 4


@pytest.mark.parametrize(
    ("arguments", "place", "message"),
    [
        ({"exclude": [{"workerz": ("one",)}]}, "matrix.exclude[0]", "no factor is called"),
        ({"exclude": [{"hash": ("x",)}]}, "matrix.exclude[0]", "no level `x`"),
        ({"include": [{"hash": ("zero",)}]}, "matrix.include[0]", "one level of `workers`"),
        ({"exclude": [{}]}, "matrix.exclude", "every condition is excluded"),
    ],
)
def test_a_wrong_correction_names_its_place(arguments, place, message):
    with pytest.raises(MatrixError, match=message) as caught:
        expand([WORKERS, HASH], **arguments)

    assert caught.value.place == place
    assert caught.value.hint


def test_a_matrix_too_large_to_report_on_is_refused_before_it_is_built():
    wide = [factor(f"f{i}", *[f"l{j}" for j in range(10)]) for i in range(9)]

    with pytest.raises(MatrixError, match="1000000000 conditions"):
        expand(wide)


def arms(treatment, control):
    return {Role.TREATMENT: treatment, Role.CONTROL: control}


def test_the_other_factors_are_the_strata_and_each_has_its_own_contrast():
    conditions = expand([WORKERS, HASH])

    found = assign(
        conditions, [WORKERS, HASH], arms({"workers": ("eight",)}, {"workers": ("one",)})
    )

    assert [pair.stratum for pair in found.pairs] == ["hash=random", "hash=fixed", "hash=zero"]
    for pair in found.pairs:
        assert found.roles[pair.treatment] is Role.TREATMENT
        assert found.roles[pair.control] is Role.CONTROL
        assert found.strata[pair.treatment] == found.strata[pair.control] == pair.stratum


def test_two_treatment_levels_share_the_control_of_their_stratum():
    conditions = expand([HASH])

    found = assign(conditions, [HASH], arms({"hash": ("random", "zero")}, {"hash": ("fixed",)}))

    assert [(pair.treatment, pair.control) for pair in found.pairs] == [(0, 1), (2, 1)]


@pytest.mark.parametrize(
    ("treatment", "control", "message"),
    [
        ({"hash": ("random",)}, {"hash": ("fixed",)}, "`hash=zero` is in no arm"),
        (
            {"hash": ("random", "fixed")},
            {"hash": ("fixed", "zero")},
            "`hash=fixed` is in both arms",
        ),
        ({"hash": ("random",)}, {"hash": ("fixed", "zero")}, "2 control conditions"),
        ({"hash": ("random",)}, {"workers": ("one",)}, "different factors"),
        ({}, {}, "different factors"),
        ({"hash": ("random", "fixed", "zero")}, {"hash": ("none",)}, "no level `none`"),
    ],
)
def test_arms_that_do_not_divide_the_conditions_are_refused(treatment, control, message):
    factors = [HASH] if "workers" not in control else [WORKERS, HASH]

    with pytest.raises(MatrixError, match=message):
        assign(expand(factors), factors, arms(treatment, control))


def test_a_stratum_without_a_control_is_refused():
    conditions = expand([WORKERS, HASH], exclude=[{"workers": ("one",), "hash": ("zero",)}])

    with pytest.raises(MatrixError, match="stratum `hash=zero` has no control"):
        assign(conditions, [WORKERS, HASH], arms({"workers": ("eight",)}, {"workers": ("one",)}))


@given(st.integers(1, 4), st.integers(2, 5))
def test_every_condition_stands_in_exactly_one_contrast_or_is_a_shared_control(strata, levels):
    contrast = factor("contrast", *[f"c{i}" for i in range(levels)])
    rest = factor("rest", *[f"r{i}" for i in range(strata)])
    conditions = expand([contrast, rest])

    found = assign(
        conditions,
        [contrast, rest],
        arms({"contrast": tuple(f"c{i}" for i in range(1, levels))}, {"contrast": ("c0",)}),
    )

    treated = [pair.treatment for pair in found.pairs]
    assert sorted(treated) == [i for i, role in enumerate(found.roles) if role is Role.TREATMENT]
    assert len({pair.control for pair in found.pairs}) == strata
