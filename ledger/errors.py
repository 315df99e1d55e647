"""What can go wrong with a ledger."""


class LedgerError(Exception):
    """A ledger cannot do what was asked; says what was found, where, and the way out."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Takes what was found, the `place` (a file or an investigation) and a way out."""
        super().__init__(message)
        self.place = place
        self.hint = hint


class EntryRefusedError(LedgerError):
    """An item can never become an entry: a key or a body breaks a rule of the records."""


class UnknownInvestigationError(LedgerError):
    """The ledger holds no investigation of that name."""


class OtherPlanError(LedgerError):
    """The investigation was opened with another plan."""


class FencedError(LedgerError):
    """A newer driver took the lease; the caller's batch was not written and must not be retried."""


class ClosedError(LedgerError):
    """The investigation takes no more entries."""


class StoreUnavailableError(LedgerError):
    """The store did not take or give data: disk full, input or output error, locked.

    Whether the batch was written is not known. Sending the same batch again is always right: what
    was written is then a no-op.
    """


class FormatTooNewError(LedgerError):
    """A newer version of this program wrote the file; nothing in it was read or changed."""


class TamperedError(LedgerError):
    """What is stored is not what was recorded.

    `seq` is the first entry that breaks a rule, `None` where no single entry can be named; `rule`
    is the broken rule.
    """

    def __init__(
        self, message: str, *, rule: str, seq: int | None = None, place: str = "", hint: str = ""
    ) -> None:
        """Takes what was found, the broken `rule` and the `seq` of the first offending entry."""
        super().__init__(message, place=place, hint=hint)
        self.rule = rule
        self.seq = seq


class SchemaAlteredError(TamperedError):
    """The tables or triggers of a file are not those that guard a ledger."""
