"""While trials may follow nobody sees an outcome by accident, and a look is on the record."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from reproduce.cli.app import run
from reproduce.testing.commands import environment, investigations, words, write_investigation

DEADLINE_S = 30

# Trials from the ninth on stay until they may go.
PROBE = """\
if [ "$REPRODUCE_TRIAL" -ge 8 ] && [ ! -e "$MARK/go" ]; then echo > "$MARK/stuck"; sleep 600; fi
[ "$1" = 1 ] && echo LOST in the treatment && exit 1
echo held in the control
"""

TELLING = ("LOST in the treatment", "held in the control", "matched", "clean", "PINNED", "PARTIAL")
"""Words that would tell how a trial or the investigation went."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose investigation has eight outcomes and was then interrupted twice."""
    folder = tmp_path_factory.mktemp("interrupted")
    mark = tmp_path_factory.mktemp("mark")
    (folder / "mark").symlink_to(mark)
    write_investigation(
        folder, ("timeout_s = 20", f'timeout_s = 120\nenv = {{ MARK = "{mark}" }}'), probe=PROBE
    )
    with subprocess.Popen(
        words("run", "reproduce.toml", "--yes"),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stderr is not None
        assert driver.stdout is not None
        deadline = time.monotonic() + DEADLINE_S
        while not (mark / "stuck").exists():
            assert driver.poll() is None, driver.stderr.read()
            assert time.monotonic() < deadline
        driver.send_signal(signal.SIGINT)
        said = []
        for line in driver.stderr:
            said.append(line)
            if line.startswith("finishing what runs"):
                driver.send_signal(signal.SIGINT)
        out = driver.stdout.read()
    assert driver.returncode == 130, said
    assert out == ""
    assert any("resumes" in line for line in said)
    return folder


@pytest.fixture
def folder(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(interrupted)
    return interrupted


WITHHOLDING = {
    "verdict": ("verdict",),
    "verdict under another policy": ("verdict", "--policy", "strict/2"),
    "verdict as JSON": ("verdict", "--json"),
    "status": ("status",),
    "status as JSON": ("status", "--json"),
    "ledger show": ("ledger", "show"),
    "ledger show as JSON": ("ledger", "show", "--json"),
    "export to JSON": ("export", "-f", "json"),
    "export to CSV": ("export", "-f", "csv"),
    "export to Markdown": ("export", "-f", "md"),
    "export to JUnit": ("export", "-f", "junit"),
    "explain": ("explain",),
    "explain as JSON": ("explain", "--json"),
    "compare": ("compare",),
    "compare as JSON": ("compare", "--json"),
    "verify": ("verify",),
    "verify as JSON": ("verify", "--json"),
}


def plan_free(text: str) -> str:
    """The text without the lines that repeat the plan, which was there before any outcome."""
    return "\n".join(line for line in text.splitlines() if "symptom" not in line)


@pytest.mark.parametrize("words_", WITHHOLDING.values(), ids=WITHHOLDING)
def test_an_unfinished_investigation_shows_no_outcome(
    words_: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not investigations(folder)[-1].closed

    code = run(list(words_))

    shown = capsys.readouterr()
    assert code in {0, 3}, shown.err
    told = [word for word in TELLING if word in plan_free(shown.out + shown.err)]
    assert told == [], shown.out
    assert '"code":1' not in shown.out


@pytest.mark.usefixtures("folder")
def test_the_output_of_a_trial_is_refused_while_outcomes_are_sealed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(["ledger", "log", "latest", "0"])

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert "outcomes are sealed" in shown.err
    assert "hint: wait for the end, or `--unseal`, which is recorded" in shown.err


@pytest.mark.usefixtures("folder")
def test_the_document_of_a_sealed_verdict_says_that_it_is_withheld(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["verdict", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert (document["withheld"], document["verdict"], document["exit_code"]) == (True, None, 3)


def test_a_look_shows_outcomes_and_is_on_the_record_and_in_the_final_verdict(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A copy, so that the other tests find the seal as it was.
    folder = copied(interrupted)
    monkeypatch.chdir(folder)

    run(["verdict", "--unseal"])
    looked = capsys.readouterr()
    run(["ledger", "show", "--json"])
    recorded = capsys.readouterr().out
    (interrupted / "mark" / "go").touch()
    ended = run(["run", "reproduce.toml", "--quiet"])
    final = capsys.readouterr()

    assert "this is recorded" in looked.err
    assert "4/4" in looked.out
    assert '"unsealed"' in recorded
    assert ended in {0, 3}, final.err
    assert investigations(folder)[-1].closed
    assert "unsealed" in final.out


def copied(folder: Path) -> Path:
    """A copy of the investigation beside it, with its ledger, trees and spools."""
    copy = folder.parent / f"{folder.name}-copy"
    subprocess.run(["cp", "-a", folder, copy], check=True)
    return copy
