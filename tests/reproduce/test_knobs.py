import pytest

from matrices import Setting, trial_seed
from reproduce.errors import UsageError
from reproduce.knobs import (
    KNOBS,
    WorldDraft,
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

PLACE = "matrix.factor.level"


def knob(name: str, value: object) -> Setting:
    return parse_knob(name, value, place=PLACE)


def refusal(name: str, value: object) -> UsageError:
    with pytest.raises(UsageError) as raised:
        knob(name, value)
    return raised.value


def applied(*settings: Setting) -> WorldDraft:
    draft = WorldDraft(argv=["probe"], env={})
    apply_knobs(settings, draft)
    return draft


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("env", {"B": "2", "A": "1"}, '{"A":"1","B":"2"}'),
        ("args", ["--workers", "8"], '["--workers","8"]'),
        ("hash_seed", 0, "0"),
        ("hash_seed", 2**32 - 1, "4294967295"),
        ("hash_seed", "per-trial", '"per-trial"'),
        ("seed", 42, "42"),
        ("tz", "America/New_York", '"America/New_York"'),
        ("tz", "UTC", '"UTC"'),
        ("locale", "de_DE.UTF-8", '"de_DE.UTF-8"'),
        ("umask", "077", '"077"'),
        ("switch_interval", "0.000001", '"0.000001"'),
        ("limits", {"stack": "unlimited", "nofile": 64}, '{"nofile":64,"stack":"unlimited"}'),
        ("requirements", "old.txt", '"old.txt"'),
    ],
)
def test_a_declared_value_is_written_as_canonical_text(
    name: str, value: object, text: str
) -> None:
    assert knob(name, value) == Setting(name=name, value=text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("env", {"A": 1}),
        ("env", {"A-B": "1"}),
        ("env", {"A": "\0"}),
        ("env", "A=1"),
        ("args", "--workers"),
        ("args", [1]),
        ("hash_seed", "random"),
        ("hash_seed", 2**32),
        ("hash_seed", -1),
        ("hash_seed", True),
        ("seed", 2**53),
        ("seed", "42"),
        ("tz", "../etc/passwd"),
        ("tz", "/etc/localtime"),
        ("tz", 1),
        ("locale", "../x"),
        ("locale", ""),
        ("umask", 77),
        ("umask", "088"),
        ("umask", "1777"),
        ("switch_interval", 0.001),
        ("switch_interval", "1e-6"),
        ("switch_interval", "-1"),
        ("switch_interval", "0.0000001"),
        ("limits", {"nofiles": 1}),
        ("limits", {"nofile": "1"}),
        ("limits", {"nofile": -1}),
        ("requirements", ""),
    ],
)
def test_a_value_against_the_rule_names_place_rule_and_an_example(
    name: str, value: object
) -> None:
    error = refusal(name, value)

    assert error.place == f"{PLACE}.{name}"
    assert KNOBS[name].rule in error.message
    assert KNOBS[name].example in error.hint


def test_the_example_of_every_knob_is_a_value_that_it_takes() -> None:
    import tomllib  # noqa: PLC0415

    for name, one in KNOBS.items():
        value = tomllib.loads(f"value = {one.example}")["value"]

        assert knob(name, value).name == name


def test_neutral_values_are_values_that_the_knob_takes() -> None:
    import json  # noqa: PLC0415

    for name in KNOBS:
        text = neutral(name)
        if text is not None:
            assert knob(name, json.loads(text)).value == text


def test_an_unknown_knob_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match="no knob is called `hashseed`") as raised:
        knob_named("hashseed", place=PLACE)

    assert raised.value.place == PLACE
    assert "`hash_seed`" in raised.value.hint
    assert "`umask`" in refusal("quux", 1).hint


@pytest.mark.parametrize(
    ("zone", "near"),
    [("Europe/Berln", "Europe/Berlin"), ("america/new_york", "America/New_York")],
)
def test_a_misspelt_zone_is_refused_with_the_nearest_ones(zone: str, near: str) -> None:
    error = refusal("tz", zone)

    assert f"there is no time zone `{zone}`" in error.message
    assert f"`{near}`" in error.hint


def test_the_zone_that_means_whatever_the_host_has_is_refused() -> None:
    assert "no time zone `localtime`" in refusal("tz", "localtime").message


def test_variables_that_tell_a_trial_who_it_is_cannot_be_set() -> None:
    assert refusal("env", {"REPRODUCE_SEED": "1"}).place == f"{PLACE}.env.REPRODUCE_SEED"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"as": 1000}, "not a multiple of 1024"),
        ({"stack": 1}, "not a multiple of 1024"),
        ({"fsize": 1024}, "the least is 4096"),
    ],
)
def test_limits_that_no_shell_could_set_are_refused(limits: object, said: str) -> None:
    assert said in refusal("limits", limits).message


@pytest.mark.parametrize("interval", ["0", "0.0", "11"])
def test_an_interval_without_meaning_is_refused(interval: str) -> None:
    assert "out of range" in refusal("switch_interval", interval).message


def test_two_factors_may_set_different_variables_and_nothing_else_twice() -> None:
    one, other = knob("env", {"A": "1"}), knob("env", {"B": "2"})

    assert merge_knobs([[one, knob("tz", "UTC")], [other]], place="matrix") == (
        Setting(name="env", value='{"A":"1","B":"2"}'),
        Setting(name="tz", value='"UTC"'),
    )
    with pytest.raises(UsageError, match="the variable `A`"):
        merge_knobs([[one], [one]], place="matrix")
    with pytest.raises(UsageError, match="the knob `umask`"):
        merge_knobs([[knob("umask", "077")], [knob("umask", "077")]], place="matrix")


def test_what_goes_around_one_command_goes_around_every_command() -> None:
    treatment = [knob("limits", {"nofile": 64}), knob("tz", "Asia/Tokyo")]

    assert with_neutral([treatment, []]) == (
        tuple(treatment),
        (Setting(name="limits", value="{}"),),
    )
    assert with_neutral([[knob("tz", "Asia/Tokyo")], []]) == ((knob("tz", "Asia/Tokyo"),), ())


def test_neutral_and_tight_limits_run_through_the_same_shell() -> None:
    tight = applied(knob("limits", {"nofile": 64}))
    loose = applied(knob("limits", {}))

    assert tight.argv[:2] == loose.argv[:2] == ["/bin/sh", "-c"]
    assert tight.argv[3:] == loose.argv[3:] == ["{knobs}", "probe"]


def test_nothing_that_a_knob_puts_around_a_command_is_taken_for_a_placeholder() -> None:
    every = {"nofile": 64, "as": 2**40, "nproc": 9999, "fsize": 4096, "stack": "unlimited"}
    draft = applied(knob("limits", every), knob("switch_interval", "0.001"))

    filled = [text.format(knobs="/k") for text in (*draft.argv, *draft.env.values())]

    assert "/k" in filled


def test_arguments_are_appended_to_the_command_and_not_to_the_shell_around_it() -> None:
    draft = applied(knob("limits", {}), knob("args", ["--workers", "8"]))

    assert draft.argv[-3:] == ["probe", "--workers", "8"]


def test_hash_seeds_per_trial_come_from_the_stream_of_the_plan() -> None:
    draft = applied(knob("hash_seed", "per-trial"))

    seeds = [draft.trial_values(seed=7, number=number)["hash_seed"] for number in range(200)]

    assert draft.env["PYTHONHASHSEED"] == "{hash_seed}"
    assert seeds[3] == str(trial_seed(7, 3, stream="hash") % 2**32)
    assert len(set(seeds)) == 200
    assert seeds[0] != draft.trial_values(seed=8, number=0)["hash_seed"]


def test_a_fixed_seed_is_the_seed_of_every_trial() -> None:
    assert applied(knob("seed", 42)).seed == 42
    assert applied(knob("seed", "per-trial")).seed is None


def test_a_level_may_extend_the_module_path_that_another_knob_leads() -> None:
    draft = applied(knob("switch_interval", "0.001"), knob("env", {"PYTHONPATH": "{tmp}/lib"}))

    assert draft.env["PYTHONPATH"].endswith("/preload:{tmp}/lib")


def test_a_knob_without_its_evidence_was_not_applied() -> None:
    settings = [knob("limits", {"nofile": 64}), knob("switch_interval", "0.001")]

    shown, missed = knob_evidence(settings, {})

    assert missed == ("limits", "switch_interval")
    assert [setting.name for setting in shown] == ["limits", "switch_interval"]


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("limits", {"nofile": 64}, ""),
        ("limits", {"nofile": 64}, "nofile\n64\n"),
        ("limits", {"nofile": 64}, "nofile\n64\n1024\n"),
        ("limits", {"nofile": 64}, "as\n64\n64\n"),
        ("switch_interval", "0.001", "0.005000000"),
        ("switch_interval", "0.001", "nonsense"),
        ("switch_interval", "0.001", ""),
    ],
)
def test_evidence_of_another_value_means_not_applied(name: str, value: object, found: str) -> None:
    _, missed = knob_evidence([knob(name, value)], {name: found})

    assert missed == (name,)


def test_knobs_that_cannot_miss_leave_no_evidence() -> None:
    assert knob_evidence([knob("tz", "UTC"), knob("env", {"A": "1"})], {}) == ((), ())


def test_a_locale_that_the_host_lacks_is_said_before_anything_runs() -> None:
    ((setting, found),) = probe_knobs([knob("locale", "xx_XX.UTF-8"), knob("locale", "C.UTF-8")])

    assert setting.value == '"xx_XX.UTF-8"'
    assert "no locale `xx_XX.UTF-8`" in found.why


def test_a_zone_that_a_child_would_read_as_utc_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from reproduce.knobs import tz  # noqa: PLC0415

    tokyo = knob("tz", "Asia/Tokyo")
    assert probe_knobs([tokyo]) == ()

    # A zone that only our own Python knows, as on a host without tzdata.
    monkeypatch.setattr(tz, "_seen_by_child", lambda _name: (0,) * 16)

    assert [setting for setting, _ in probe_knobs([tokyo])] == [tokyo]


@pytest.mark.parametrize(("user", "missing"), [(0, 1), (1000, 0)])
def test_a_limit_of_processes_is_not_offered_to_root(
    monkeypatch: pytest.MonkeyPatch, user: int, missing: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)

    assert len(probe_knobs([knob("limits", {"nproc": 10})])) == missing
    assert probe_knobs([knob("limits", {"nofile": 10})]) == ()


def test_the_table_says_of_every_knob_what_it_takes_and_whether_it_is_there() -> None:
    rows = knobs_table()

    assert [row.name for row in rows] == list(KNOBS)
    assert all(row.available and row.summary and row.mechanism for row in rows)
