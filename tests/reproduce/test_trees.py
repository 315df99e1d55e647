import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from reproduce.errors import InfrastructureError, IntegrityError, UsageError
from reproduce.trees import (
    Tree,
    git as trees_git,
    snapshot,
    snapshot_revision,
    store as trees_store,
    tree_digest,
    tree_path,
    verify_tree,
)


def git(folder: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    ended = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


def written(folder: Path, name: str, text: str = "x\n", *, mode: int = 0o644) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    written(folder, "probe.py", "print(1)\n")
    written(folder, "bin/run.sh", "#!/bin/sh\n", mode=0o755)
    written(folder, ".gitignore", "ignored\n.reproduce\n")
    (folder / "link").symlink_to("bin/run.sh")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trees"


def names(tree: Tree) -> set[str]:
    return {
        str(path.relative_to(tree.path))
        for path in tree.path.rglob("*")
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    }


COMMITTED = {"probe.py", "bin/run.sh", ".gitignore", "link"}


def test_a_snapshot_has_what_git_tracks_and_what_it_does_not_ignore(
    repository: Path, store: Path
) -> None:
    written(repository, "new/untracked.txt")
    written(repository, "ignored/data.bin")
    written(repository, ".reproduce/ledger.sqlite")

    tree = snapshot(repository, store=store)

    assert names(tree) == {*COMMITTED, "new/untracked.txt"}
    assert tree.path == tree_path(store, tree.digest)
    assert (tree.files, tree.size) == (5, 9 + 10 + 19 + 10 + 2)
    assert tree.revision == git(repository, "rev-parse", "HEAD")
    assert tree.modified


def test_links_and_the_executable_bit_are_kept_and_nothing_else_of_the_host(
    repository: Path, store: Path
) -> None:
    (repository / "probe.py").chmod(0o600)

    tree = snapshot(repository, store=store)

    assert (tree.path / "link").readlink() == Path("bin/run.sh")
    assert (tree.path / "bin/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tree.path / "probe.py").stat().st_mode & 0o777 == 0o644
    assert (tree.path / "bin").stat().st_mode & 0o777 == 0o755
    assert {(tree.path / name).lstat().st_mtime for name in names(tree)} == {1_000_000_000}


def test_an_unchanged_folder_is_not_modified_and_equals_its_revision(
    repository: Path, store: Path
) -> None:
    folder = snapshot(repository, store=store)
    revision = snapshot_revision(repository, "main", store=store)

    assert not folder.modified
    assert folder == revision
    assert [path.name for path in store.iterdir()] == [folder.digest]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: written(folder, "probe.py", "print(2)\n"),
        lambda folder: written(folder, "new"),
        lambda folder: (folder / "probe.py").unlink(),
        lambda folder: (folder / "probe.py").chmod(0o755),
        lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("probe.py")),
    ],
    ids=["edited", "added", "removed", "executable", "linked"],
)
def test_every_change_makes_another_tree_that_says_so(
    change: Callable[[Path], object], repository: Path, store: Path
) -> None:
    before = snapshot(repository, store=store)
    change(repository)

    after = snapshot(repository, store=store)

    assert after.modified
    assert after.digest != before.digest
    verify_tree(before.path, before.digest)
    verify_tree(after.path, after.digest)


def test_the_digest_does_not_depend_on_git_time_or_mask(
    repository: Path, store: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(repository, plain, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    os.utime(plain / "probe.py", (1, 1))
    before = os.umask(0o077)
    try:
        tree = snapshot(plain, store=store)
    finally:
        os.umask(before)

    assert tree.digest == snapshot(repository, store=store).digest
    assert (tree.revision, tree.modified) == (None, False)
    assert tree_digest(tree.path) == tree.digest


def test_without_git_all_files_count_and_empty_folders_too(tmp_path: Path, store: Path) -> None:
    folder = tmp_path / "plain"
    written(folder, "a/b.txt")
    written(folder, ".reproduce/state")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe")

    tree = snapshot(folder, store=store)

    assert names(tree) == {"a/b.txt", "empty"}
    assert tree.files == 1
    verify_tree(tree.path, tree.digest)


def test_a_folder_that_git_ignores_as_a_whole_is_taken_as_it_is(
    repository: Path, store: Path
) -> None:
    written(repository, "ignored/probe.py")

    tree = snapshot(repository / "ignored", store=store)

    assert names(tree) == {"probe.py"}
    assert tree.revision is None


def test_a_folder_below_the_root_of_a_repository_is_a_tree_of_its_own(
    repository: Path, store: Path
) -> None:
    folder = snapshot(repository / "bin", store=store)

    assert names(folder) == {"run.sh"}
    assert not folder.modified
    assert folder == snapshot_revision(repository / "bin", "HEAD", store=store)


def test_files_of_a_repository_within_are_part_of_the_tree_and_its_history_is_not(
    repository: Path, store: Path
) -> None:
    inner = repository / "vendor"
    written(inner, "lib.py")
    written(inner, "skipped")
    written(inner, ".gitignore", "skipped\n")
    git(inner, "init", "-q")

    assert names(snapshot(repository, store=store)) == {
        *COMMITTED,
        "vendor/lib.py",
        "vendor/.gitignore",
    }


def test_names_need_not_be_text(repository: Path, store: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 \n\t.txt")
    written(repository, odd)

    tree = snapshot(repository, store=store)

    assert odd in names(tree)
    verify_tree(tree.path, tree.digest)


def test_nothing_is_read_through_a_link_that_took_the_place_of_a_folder(
    repository: Path, store: Path, tmp_path: Path
) -> None:
    written(tmp_path / "outside", "run.sh", "secret\n")
    shutil.rmtree(repository / "bin")
    (repository / "bin").symlink_to(tmp_path / "outside")

    tree = snapshot(repository, store=store)

    assert names(tree) == {"probe.py", ".gitignore", "link", "bin"}
    assert (tree.path / "bin").is_symlink()
    assert (tmp_path / "outside" / "run.sh").read_text() == "secret\n"


def test_a_repository_of_a_stranger_runs_nothing(
    repository: Path, store: Path, tmp_path: Path
) -> None:
    trap = written(tmp_path, "trap", f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n", mode=0o755)
    hooks = tmp_path / "hooks"
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        written(hooks, hook, f"#!/bin/sh\ntouch {tmp_path}/sprung\n", mode=0o755)
    written(repository, ".gitattributes", "* filter=trap diff=trap\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "attributes")
    for key in ("filter.trap.clean", "filter.trap.smudge", "diff.trap.textconv"):
        git(repository, "config", key, str(trap))
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor"):
        git(repository, "config", key, str(trap))
    git(repository, "config", "core.hooksPath", str(hooks))
    written(repository, "probe.py", "print(3)\n")

    snapshot(repository, store=store)
    snapshot_revision(repository, "HEAD", store=store)

    assert not (tmp_path / "sprung").exists()


LAZY = {
    "ext": "ext::sh -c touch% {mark}",
    "ssh": "ssh://nowhere.invalid/x",
    "file": "file://{source}",
}


@pytest.mark.parametrize("protocol", LAZY)
def test_a_missing_object_is_not_fetched_in_the_way_that_a_stranger_chose(
    protocol: str,
    repository: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = trees_git._environment
    # A git before 2.45 does not know the variable.
    monkeypatch.setattr(
        trees_git,
        "_environment",
        lambda path: {k: v for k, v in environment(path).items() if k != "GIT_NO_LAZY_FETCH"},
    )
    mark = tmp_path / "sprung"
    shell = written(tmp_path, "ssh", f"#!/bin/sh\ntouch {mark}\n", mode=0o755)
    upload = written(tmp_path, "upload", f"#!/bin/sh\ntouch {mark}\n", mode=0o755)
    blob = git(repository, "rev-parse", "HEAD:probe.py")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    address = LAZY[protocol].format(mark=mark, source=repository)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": address,
        "remote.origin.uploadpack": str(upload),
        "protocol.allow": "always",
        f"protocol.{protocol}.allow": "always",
        "core.sshCommand": str(shell),
    }.items():
        git(repository, "config", key, value)

    with pytest.raises(UsageError):
        snapshot_revision(repository, "HEAD", store=store)
    snapshot(repository, store=store)

    assert not mark.exists()


def test_a_revision_whose_objects_are_missing_is_a_usage_error(
    repository: Path, store: Path
) -> None:
    blob = git(repository, "rev-parse", "HEAD:probe.py")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(UsageError, match=r"lacks the content of `probe\.py`"):
        snapshot_revision(repository, "HEAD", store=store)


@pytest.mark.parametrize("damage", ["config", "format", "index", "gitdir"])
def test_a_damaged_repository_does_not_pass_for_a_folder_without_one(
    damage: str, repository: Path, store: Path
) -> None:
    written(repository, "ignored", "a secret\n")
    if damage == "gitdir":
        shutil.rmtree(repository / ".git")
        (repository / ".git").write_text("gitdir: /nonexistent\n")
    elif damage == "format":
        (repository / ".git" / "config").write_text("[core]\nrepositoryformatversion = 99\n")
    else:
        (repository / ".git" / damage).write_text("[nonsense\n")

    with pytest.raises(UsageError, match="git cannot"):
        snapshot(repository, store=store)


@pytest.mark.parametrize("folder", ["", ".", "bin"])
def test_a_git_that_the_folder_brings_is_never_run(
    folder: str, repository: Path, store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trap = f"#!/bin/sh\ntouch {tmp_path}/sprung\n"
    written(repository, "git", trap, mode=0o755)
    written(repository, "bin/git", trap, mode=0o755)
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    snapshot(repository, store=store)

    assert not (tmp_path / "sprung").exists()


def test_a_revision_is_what_was_committed_without_its_history(
    repository: Path, store: Path
) -> None:
    buggy = git(repository, "rev-parse", "HEAD")
    written(repository, "probe.py", "print('the fix')\n")
    git(repository, "commit", "-q", "-am", "fix")

    tree = snapshot_revision(repository, f"{buggy[:8]}", store=store)

    assert tree.revision == buggy
    assert names(tree) == COMMITTED
    assert (tree.path / "probe.py").read_text() == "print(1)\n"
    assert not any(b"the fix" in path.read_bytes() for path in tree.path.rglob("*.*"))


def test_rules_for_releases_take_nothing_away_from_a_revision(
    repository: Path, store: Path
) -> None:
    rules = "tests export-ignore\nversion.txt export-subst\n*.txt eol=crlf\n"
    written(repository, ".gitattributes", rules)
    written(repository, "tests/test_a.py")
    written(repository, "version.txt", "$Format:%H$\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "rules")

    tree = snapshot_revision(repository, "HEAD", store=store)

    assert "tests/test_a.py" in names(tree)
    assert (tree.path / "version.txt").read_bytes() == b"$Format:%H$\n"


@pytest.mark.parametrize("revision", ["nope", "--help", "", "HEAD:probe.py", "HEAD~5"])
def test_a_revision_that_is_not_there_is_a_usage_error(
    revision: str, repository: Path, store: Path
) -> None:
    with pytest.raises(UsageError, match="no revision"):
        snapshot_revision(repository, revision, store=store)


def test_a_folder_that_the_revision_does_not_have_is_a_usage_error(
    repository: Path, store: Path
) -> None:
    (repository / "later").mkdir()

    with pytest.raises(UsageError, match="holds no files"):
        snapshot_revision(repository / "later", "HEAD", store=store)


def test_a_source_that_is_no_folder_is_a_usage_error(tmp_path: Path, store: Path) -> None:
    with pytest.raises(UsageError, match="not a folder") as raised:
        snapshot(tmp_path / "nope", store=store)

    assert raised.value.place == "run.source"


def without_the_rights_of_root(arguments: Iterable[str]) -> list[str]:
    """The command, started so that permissions count even where the tests run as root."""
    if os.geteuid() != 0:
        return list(arguments)
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *arguments]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("locked", ["secret.txt", "private"])
def test_what_cannot_be_read_is_named_before_anything_runs(
    *, versioned: bool, locked: str, repository: Path, store: Path
) -> None:
    if not versioned:
        shutil.rmtree(repository / ".git")
    written(repository, "secret.txt")
    written(repository, "private/x")
    (repository / locked).chmod(0)
    script = (
        "import sys\nfrom pathlib import Path\nfrom reproduce.errors import UsageError\n"
        "from reproduce.trees import snapshot\n"
        "try:\n    snapshot(Path(sys.argv[1]), store=Path(sys.argv[2]))\n"
        "except UsageError as error:\n    print(int(error.exit_code), error)\n"
    )
    command = [sys.executable, "-c", script, str(repository), str(store)]

    ended = subprocess.run(
        without_the_rights_of_root(command), capture_output=True, text=True, check=True
    )
    (repository / locked).chmod(0o755)

    assert ended.stdout.startswith("2 run.source: ")
    assert locked in ended.stdout
    assert not store.exists() or list(store.iterdir()) == []


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 3), ("MAX_BYTES", 20)])
def test_a_source_beyond_the_limits_is_refused_with_a_way_out(
    limit: str, value: int, repository: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees_store, limit, value)

    with pytest.raises(UsageError, match="4 files and 48 bytes") as raised:
        snapshot(repository, store=store)
    assert 'source = "none"' in raised.value.hint
    with pytest.raises(UsageError, match="4 files and 48 bytes"):
        snapshot_revision(repository, "HEAD", store=store)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda path: (path / "probe.py").write_text("print(2)\n"),
        lambda path: (path / "bin/run.sh").chmod(0o644),
        lambda path: written(path, ".git/config"),
        lambda path: (path / "empty").mkdir(),
        lambda path: (path / "link").unlink(),
        lambda path: (path / "probe.py").rename(path / "probe2.py"),
        shutil.rmtree,
    ],
    ids=["edited", "mode", "history", "folder", "unlinked", "renamed", "removed"],
)
def test_a_stored_tree_that_was_changed_is_not_trusted(
    tamper: Callable[[Path], object], repository: Path, store: Path
) -> None:
    tree = snapshot(repository, store=store)
    verify_tree(tree.path, tree.digest)

    tamper(tree.path)

    with pytest.raises(IntegrityError):
        verify_tree(tree.path, tree.digest)


def test_a_store_that_cannot_be_written_is_a_matter_of_infrastructure(
    repository: Path, tmp_path: Path
) -> None:
    written(tmp_path, "file")

    with pytest.raises(InfrastructureError, match="cannot be stored"):
        snapshot(repository, store=tmp_path / "file" / "trees")


def test_a_snapshot_that_fails_leaves_nothing_in_the_store(
    repository: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)

    with pytest.raises(InfrastructureError, match="No space left"):
        snapshot(repository, store=store)

    assert list(store.iterdir()) == []
