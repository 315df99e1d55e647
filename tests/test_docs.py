"""The pages say what the code says: links, reasons, verdicts, exit codes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from ledger.audit import Rule
from ledger.records import Ending, EntryKind
from matrices import Symptom
from policies import registry
from policies.model import Reason, Status, VerdictReason
from reproduce.cli.app import app
from reproduce.errors import ExitCode
from reproduce.knobs import KNOBS

ROOT = Path(__file__).parent.parent
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")))

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def first_cells(text: str) -> set[str]:
    """Returns the first cell of each table row, without its backticks."""
    rows = re.findall(r"^\| *`?([^`|]+?)`? *\|", text, re.MULTILINE)
    return {row for row in rows if not set(row) <= {"-", ":", " "}}


def dead_links() -> Iterator[str]:
    for path in PAGES:
        for target in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
            if not (path.parent / target).exists():
                yield f"{path.relative_to(ROOT)}: {target}"


def test_every_relative_link_leads_to_a_file() -> None:
    assert list(dead_links()) == []


def test_every_page_is_reachable_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    while True:
        found = {
            (path.parent / target).resolve()
            for path in reached
            for target in LINK.findall(path.read_text("utf-8"))
            if target.endswith(".md")
        }
        if found <= reached:
            break
        reached |= found

    assert {path for path in PAGES if "docs" in path.parts} - reached == set()


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_for_an_unresolved_trial_is_explained(reason: Reason) -> None:
    assert reason.value in first_cells(page("concepts.md"))


@pytest.mark.parametrize("status", Status)
def test_every_verdict_is_explained(status: Status) -> None:
    assert status.value in first_cells(page("concepts.md"))


def test_the_exit_codes_are_those_of_the_code() -> None:
    documented = {int(cell) for cell in first_cells(page("exit-codes.md")) if cell.isdigit()}

    assert documented == {code.value for code in ExitCode}


def test_every_kind_of_symptom_is_explained() -> None:
    union = Symptom.__origin__
    kinds = {member.model_fields["kind"].default for member in union.__args__}

    assert kinds <= first_cells(page("file-format.md"))


@pytest.mark.parametrize("reason", VerdictReason)
def test_every_reason_in_a_verdict_is_explained(reason: VerdictReason) -> None:
    assert reason.value in first_cells(page("policies.md"))


@pytest.mark.parametrize("policy", registry.names())
def test_every_policy_is_explained(policy: str) -> None:
    assert f"## `{policy}`" in page("policies.md")


@pytest.mark.parametrize("knob", KNOBS)
def test_every_knob_is_explained(knob: str) -> None:
    assert knob in first_cells(page("file-format.md"))


@pytest.mark.parametrize("kind", EntryKind)
def test_every_kind_of_entry_is_explained(kind: EntryKind) -> None:
    assert f"`{kind.value}`" in page("ledger-format.md")


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_of_an_attempt_is_named(ending: Ending) -> None:
    assert f"`{ending.value}`" in page("ledger-format.md")


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_of_an_audit_is_explained(rule: Rule) -> None:
    assert rule.value in first_cells(page("ledger-format.md"))


def test_every_command_that_a_page_names_exists() -> None:
    known = set(typer.main.get_command(app).commands)

    named = {
        name
        for path in PAGES
        for name in re.findall(
            r"(?:`|^\$ |/bin/)reproduce ([a-z]+)", path.read_text("utf-8"), re.MULTILINE
        )
    }
    assert named <= known
    assert "verify" in named
