"""Errors that a person can act on, and the exit codes of every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code says; the same for every command."""

    DONE = 0
    REFUTED = 1
    USAGE = 2
    NOT_ENOUGH = 3
    NOT_APPROVED = 4
    INFRASTRUCTURE = 5
    INTEGRITY = 6
    INTERRUPTED = 130


class ReproduceError(Exception):
    """Something a person can mend: what was asked, what was found, where, and the way out."""

    exit_code = ExitCode.INFRASTRUCTURE

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Takes what was found, the `place` (file and key) and a way out."""
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        """The place and the message on one line; the hint is a line of its own."""
        return f"{self.place}: {self.message}" if self.place else self.message


class UsageError(ReproduceError):
    """A file or an argument breaks a rule; nothing ran."""

    exit_code = ExitCode.USAGE


class NotApprovedError(ReproduceError):
    """The plan is not approved, or is not the one that was."""

    exit_code = ExitCode.NOT_APPROVED


class InfrastructureError(ReproduceError):
    """A disk, a daemon, a package source or another driver is in the way; resumable."""

    exit_code = ExitCode.INFRASTRUCTURE


class IntegrityError(ReproduceError):
    """Stored records are not what was recorded."""

    exit_code = ExitCode.INTEGRITY
