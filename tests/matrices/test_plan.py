import pytest
from hypothesis import given, settings, strategies as st

from matrices import (
    Budget,
    CanonicalError,
    Choice,
    Condition,
    Contrast,
    Environment,
    ExitCodeSymptom,
    MatrixError,
    OutputSymptom,
    Plan,
    PolicyRef,
    Role,
    Setting,
    Source,
    SourceKind,
    default_seed,
    short_plan,
)

text = st.text(max_size=12)
names = st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True)
setting = st.builds(Setting, name=text, value=text)


def condition(role, index, draw):
    return Condition(
        name=f"arm={role}-{index}",
        choices=(Choice(factor="arm", level=f"{role}-{index}"),),
        role=role,
        stratum="",
        cmd=tuple(draw(st.lists(text, min_size=1, max_size=3))),
        timeout_us=draw(st.integers(1000, 10**12)),
        env=tuple(draw(st.lists(setting, max_size=3))),
        knobs=tuple(draw(st.lists(setting, max_size=2))),
        environment=draw(st.none() | st.just(0)),
    )


@st.composite
def plans(draw):
    treated = draw(st.integers(1, 3))
    conditions = tuple(
        [condition(Role.CONTROL, 0, draw)]
        + [condition(Role.TREATMENT, index, draw) for index in range(treated)]
    )
    return Plan(
        title=draw(text),
        issue=draw(st.none() | text),
        source=Source(kind=SourceKind.NONE),
        environments=(Environment(requirements=draw(st.none() | text)),),
        symptoms=(
            OutputSymptom(name=draw(names), pattern=draw(text), clean_exit=(0,)),
            ExitCodeSymptom(name="other symptom".replace(" ", "-"), matched=(1,), clean=(0,)),
        ),
        primary="other-symptom",
        conditions=conditions,
        contrasts=tuple(
            Contrast(stratum="", treatment=index + 1, control=0) for index in range(treated)
        ),
        budget=Budget(trials=draw(st.integers(1, 10**6)), parallel=draw(st.integers(1, 64))),
        policy=PolicyRef(name="strict/1", parameters=tuple(draw(st.lists(setting, max_size=2)))),
        seed=draw(st.integers(0, 2**53 - 1)),
    )


@settings(max_examples=60)
@given(plans().filter(lambda plan: plan.symptoms[0].name != "other-symptom"))
def test_a_plan_read_back_from_its_bytes_is_the_same_plan(plan):
    again = Plan.from_canonical(plan.canonical())

    assert again == plan
    assert again.digest() == plan.digest()
    assert plan.short_name() == short_plan(plan.digest()) == f"pl_{plan.digest()[:12]}"


def example():
    conditions = tuple(
        Condition(
            name=f"arm={role}",
            choices=(Choice(factor="arm", level=role.value),),
            role=role,
            stratum="",
            cmd=("probe",),
            timeout_us=1_000_000,
        )
        for role in Role
    )
    return Plan(
        title="example",
        source=Source(kind=SourceKind.NONE),
        symptoms=(ExitCodeSymptom(matched=(1,), clean=(0,)),),
        primary="symptom",
        conditions=conditions,
        contrasts=(Contrast(stratum="", treatment=0, control=1),),
        budget=Budget(trials=10, parallel=2),
        policy=PolicyRef(name="strict/1"),
        seed=3,
    )


def test_the_digest_of_a_plan_never_changes():
    # Approvals and ledgers name plans by it; a change orphans all of them.
    assert example().digest() == "0280b6a4cda559c5053a70b0a74f5c43dd3a47cc2e7b2298a3667a1b58aa36f5"


CHANGES = {
    "title": "examplf",
    "seed": 4,
    "budget": Budget(trials=11, parallel=2),
    "policy": PolicyRef(name="strict/2"),
    "source": Source(kind=SourceKind.FOLDER, tree="0" * 64),
    "symptoms": (ExitCodeSymptom(matched=(1, 2), clean=(0,)),),
    "environments": (Environment(setup=(("true",),)),),
}


@pytest.mark.parametrize(("field", "value"), CHANGES.items(), ids=CHANGES)
def test_any_change_makes_another_plan(field, value):
    assert example().model_copy(update={field: value}).digest() != example().digest()


def test_one_byte_more_is_not_the_plan():
    body = example().canonical()

    with pytest.raises(CanonicalError):
        Plan.from_canonical(body + b" ")
    with pytest.raises(ValueError, match="Extra inputs"):
        Plan.from_canonical(body.replace(b'"issue":null', b'"issu":1,"issue":null'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"primary": "nobody"}, "`primary`"),
        ({"contrasts": (Contrast(stratum="", treatment=0, control=7),)}, "does not have"),
        ({"contrasts": (Contrast(stratum="", treatment=1, control=0),)}, "a treatment with"),
    ],
)
def test_a_plan_that_does_not_hold_together_is_refused(change, message):
    plan = example()

    with pytest.raises((MatrixError, ValueError), match=message):
        Plan(**{**dict(plan), **change})


def test_the_default_seed_follows_from_the_plan():
    first, second = example(), example().model_copy(update={"title": "another"})

    assert default_seed(first.digest()) == default_seed(example().digest())
    assert default_seed(first.digest()) != default_seed(second.digest())
    assert 0 <= default_seed(first.digest()) < 2**53
