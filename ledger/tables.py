"""The tables of a ledger, for reading; `ledger.sqlite_schema` has their text for SQLite."""

from typing import ClassVar

from sqlalchemy import MetaData
from sqlmodel import Field, SQLModel


class LedgerTable(SQLModel):
    """What the tables share: metadata of their own, so that no other table joins them."""

    metadata: ClassVar[MetaData] = MetaData()


class InvestigationTable(LedgerTable, table=True):
    """One row for each investigation; never changed."""

    __tablename__ = "investigation"
    n: int = Field(primary_key=True)
    """A short name for the other tables: 1 to 9 bytes a row where the full one takes 35."""
    id: str = Field(unique=True)
    plan: bytes
    title: str
    issue: str | None
    opened_us: int


class HeadTable(LedgerTable, table=True):
    """The only row that changes: it grows with the entries."""

    __tablename__ = "ledger_head"
    inv: int = Field(primary_key=True, foreign_key="investigation.n")
    size: int
    frontier: bytes
    fence: int = 0
    closed: int = 0


class EntryTable(LedgerTable, table=True):
    """The source of truth."""

    __tablename__ = "ledger_entry"
    inv: int = Field(primary_key=True, foreign_key="investigation.n")
    seq: int = Field(primary_key=True)
    kind: str
    key: str
    body: bytes
    leaf: bytes


class BlobTable(LedgerTable, table=True):
    """Captured bytes; `packed` is `None` where they lie in the content folder."""

    __tablename__ = "blob"
    sha256: bytes = Field(primary_key=True)
    size: int
    packed: bytes | None


class ObservationTable(LedgerTable, table=True):
    """The projection of `observation` entries; the columns of `ObservationRow`."""

    __tablename__ = "observation"
    inv: int = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    trial: int
    block: int
    condition: int
    attempt: int
    seed: int
    worker: str
    ending: str
    code: int | None
    started_us: int
    duration_us: int
