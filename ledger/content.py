"""A folder of compressed blobs, each under the name of its digest."""

import os
from pathlib import Path

from ledger.errors import StoreUnavailableError


class ContentFolder:
    """Holds what is too large for the database; a file in it is whole or not there."""

    def __init__(self, folder: Path) -> None:
        """Takes the folder, which is made with the first file."""
        self._folder = folder

    def put(self, sha256: str, packed: bytes) -> None:
        """Stores the compressed bytes durably; does nothing if they are there.

        Raises:
            StoreUnavailableError: the folder does not take them.
        """
        path = self._path(sha256)
        if path.exists():
            return
        # The name holds the process, as two writers may bring the same bytes at one time.
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            _make_folders(path.parent)
            try:
                _write_synced(draft, packed)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
            _sync_folder(path.parent)
        except OSError as error:
            raise StoreUnavailableError(
                f"a blob could not be stored: {error.strerror or error}",
                place=str(path),
                hint="free some space and run the same command again",
            ) from error

    def get(self, sha256: str) -> bytes | None:
        """The compressed bytes, or `None` if they are not there.

        Raises:
            StoreUnavailableError: the file cannot be read.
        """
        path = self._path(sha256)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailableError(
                f"a blob could not be read: {error.strerror or error}",
                place=str(path),
                hint="check the disk and its permissions",
            ) from error

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / f"{sha256}.zst"


def _make_folders(folder: Path) -> None:
    for path in (folder.parent, folder):
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            _sync_folder(path.parent)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable: a synced file without its name is lost in a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
