"""The key that seals approvals: made once, private, and not believed where it is not."""

import os
from pathlib import Path

import pytest

from reproduce import userkey
from reproduce.errors import IntegrityError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    userkey._passing_key.cache_clear()
    return tmp_path / "state" / "reproduce"


def test_the_key_is_made_once_and_only_its_owner_can_read_it(home: Path) -> None:
    assert userkey.known_keys() == ()

    key = userkey.sealing_key()

    assert userkey.sealing_key() == key
    assert userkey.known_keys() == (key,)
    assert (home / "approval.key").read_bytes() == key
    assert len(key) == 32
    assert (home / "approval.key").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in home.iterdir()] == ["approval.key"]


def test_where_no_key_can_be_kept_this_process_has_one_of_its_own(
    home: Path,
) -> None:
    home.parent.write_text("in the way")

    key = userkey.sealing_key()

    assert not userkey.is_kept()
    assert userkey.known_keys() == (key,)
    assert userkey.sealing_key() == key


@pytest.mark.usefixtures("home")
def test_a_relative_state_home_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "/home/someone")

    expected = "/home/someone/.local/state/reproduce/approval.key"
    assert str(userkey.key_path()) == expected


def readable_by_others(path: Path) -> None:
    path.write_bytes(b"k" * 32)
    path.chmod(0o644)


def too_short(path: Path) -> None:
    path.touch(mode=0o600)


def a_link(path: Path) -> None:
    other = path.with_name("other")
    other.touch(mode=0o600)
    other.write_bytes(b"k" * 32)
    path.symlink_to(other)


def a_pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("prepare", [readable_by_others, too_short, a_link, a_pipe])
def test_a_key_that_others_may_know_seals_nothing(home: Path, prepare) -> None:
    home.mkdir(parents=True)
    prepare(home / "approval.key")

    with pytest.raises(IntegrityError, match="cannot be trusted") as caught:
        userkey.sealing_key()
    with pytest.raises(IntegrityError):
        userkey.known_keys()

    assert caught.value.hint
