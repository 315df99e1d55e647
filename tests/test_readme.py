"""The README's commands are run as they stand."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    return [text for found, text in BLOCK.findall(README.read_text()) if found == language]


def commands():
    """The blocks that use the command; those that install it are run by CI itself."""
    return [text for text in blocks("bash") if "reproduce " in text]


@pytest.mark.slow
def test_the_commands_of_the_readme_work_one_after_the_other(tmp_path):
    bin_folder = Path(sys.executable).parent
    script = "set -eu\n" + "\n".join(commands())

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    # 15 of 60 are expected; fewer than 3 would not be pinned: less than once in a million.
    assert "REPRODUCTION_PINNED" in done.stdout
    assert "Only binomial/1 was declared" in done.stdout
    assert "1 other investigation of this plan" in done.stdout
    assert "recomputed by reproduce" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_the_file_in_the_readme_keeps_the_schema():
    from reproduce.planning.file import parse  # noqa: PLC0415 - heavy

    (text,) = blocks("toml")

    assert tomllib.loads(text)["version"] == 1
    assert parse(text, place="README.md").policy.name == "binomial/1"


def test_the_make_targets_of_the_readme_exist():
    makefile = (README.parent / "Makefile").read_text()

    named = set(re.findall(r"^make (\w+)", "\n".join(blocks("bash")), re.MULTILINE))

    assert {"demo", "check", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
