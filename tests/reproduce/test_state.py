"""The state folder: private, and refused where somebody else prepared it."""

import os
from pathlib import Path

import pytest

from reproduce.errors import IntegrityError
from reproduce.state import State, held, nearest_state, state_of

NAME = "iv_" + "0" * 32


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_other_users_cannot_look_into_the_state_folder_or_at_a_lock(tmp_path: Path) -> None:
    state = state_of(tmp_path).make()

    with held(state, NAME):
        lock = state.root / "locks" / f"{NAME}.lock"
        assert [mode(path) for path in (state.root, lock.parent, lock)] == [0o700, 0o700, 0o600]


def test_a_state_folder_that_is_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / ".reproduce").mkdir(mode=0o755)

    assert mode(state_of(tmp_path).make().root) == 0o700


def test_a_link_in_place_of_the_state_folder_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / ".reproduce").symlink_to(target)

    with pytest.raises(IntegrityError, match="is a link") as caught:
        state_of(tmp_path).make()

    assert caught.value.hint
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        ".gitignore",
        "blobs",
        "environments",
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "locks",
        "spools",
        "trees",
        "world",
    ],
)
def test_a_prepared_link_in_the_state_folder_is_refused_and_not_followed(
    tmp_path: Path, name: str
) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    root = tmp_path / ".reproduce"
    root.mkdir()
    (root / name).symlink_to(target)

    with pytest.raises(IntegrityError, match="a link stands in"):
        state_of(tmp_path).make()
    with pytest.raises(IntegrityError, match="a link stands in"), held(State(root), NAME):
        pass

    assert target.read_text() == "precious"


def test_a_dangling_link_for_the_ignore_file_makes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    root = tmp_path / ".reproduce"
    root.mkdir()
    (root / ".gitignore").symlink_to(target)

    with pytest.raises(IntegrityError):
        state_of(tmp_path).make()

    assert not target.exists()


@pytest.mark.parametrize("place", [f"locks/{NAME}.lock", f"spools/{NAME}"])
def test_a_link_where_a_lock_or_the_spools_belong_is_not_followed(
    tmp_path: Path, place: str
) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    state = state_of(tmp_path).make()
    prepared = state.root / place
    prepared.parent.mkdir()
    prepared.symlink_to(target)

    with pytest.raises(IntegrityError, match="a link stands in"), held(state, NAME):
        pass

    assert target.read_text() == "precious"


def test_the_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(tmp_path).make()
    owner = state.root.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    # Root may leave a folder to others; this test has to tell them apart as root, too.
    real = Path.lstat

    def another(path: Path) -> os.stat_result:
        found = list(real(path))
        found[4] = owner + 2
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", another)

    with pytest.raises(IntegrityError, match="belongs to another user"):
        state.check()


def test_the_search_upwards_stops_at_a_folder_that_cannot_be_trusted(tmp_path: Path) -> None:
    other = tmp_path / "other"
    State(other).root.mkdir()
    (other / "ledger.sqlite").touch()
    below = tmp_path / "project" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "project" / ".reproduce").symlink_to(other)

    with pytest.raises(IntegrityError, match="is a link"):
        nearest_state(below)


def test_the_search_upwards_finds_the_nearest_ledger(tmp_path: Path) -> None:
    state = state_of(tmp_path).make()
    state.ledger.touch()
    below = tmp_path / "project" / "deep"
    below.mkdir(parents=True)

    assert nearest_state(below) == state
