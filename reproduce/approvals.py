"""Which recorded approvals are this user's own, and what was recorded before the first of them.

An entry that says `approved` proves nothing: a ledger may have come with a stranger's repository.
The seal does, since only this user can make it.
"""

import hashlib
import hmac
from collections.abc import Sequence
from itertools import count

import orjson

from ledger.errors import TamperedError
from ledger.records import Approval, EntryKind
from ledger.store import LedgerStore
from reproduce import userkey
from reproduce.errors import ReproduceError
from reproduce.judging import Approved, Story


def sealed(plan: str, investigation: str, *, by: str) -> Approval:
    """An approval of the plan with this digest, with the seal of whoever runs this process."""
    seal = _seal(userkey.sealing_key(), plan, investigation)
    return Approval(plan=plan, by=by, method="self", seal=seal)


def is_own(approval: Approved, investigation: str) -> bool:
    """Whether this user sealed the approval for this investigation.

    Raises:
        IntegrityError: somebody else can read or choose this user's key.
    """
    return any(
        hmac.compare_digest(_seal(key, approval.plan, investigation), approval.seal)
        for key in userkey.known_keys()
        if approval.seal.isascii()
    )


def own(story: Story, investigation: str, plan: str) -> tuple[Approved, ...]:
    """This user's approvals of the plan with this digest, oldest first."""
    return tuple(
        approval
        for approval in story.approvals
        if approval.plan == plan and is_own(approval, investigation)
    )


def recorded_elsewhere(story: Story, investigation: str, plan: str) -> int:
    """How many trials were recorded before this user approved the plan: not by their runs."""
    mine = own(story, investigation, plan)
    return mine[0].recorded if mine else story.recorded


def own_sessions(store: LedgerStore, investigation: str, plan: str) -> frozenset[str]:
    """The sessions that began after this user approved: only what these left is theirs.

    Raises:
        TamperedError: a session is named so that what it left would be looked for elsewhere.
    """
    mine, before, after = False, set[str](), set[str]()
    for entry in store.entries(investigation):
        if entry.kind == EntryKind.APPROVAL:
            body = orjson.loads(entry.body)["body"]
            mine = mine or (
                body["plan"] == plan and is_own(Approved.of(body, recorded=0), investigation)
            )
        elif entry.kind == EntryKind.INTENT:
            name = orjson.loads(entry.body)["body"]["session"]
            if name in {"", ".", ".."} or "/" in name:
                message = f"entry {entry.seq} of `{investigation}` names no session but a path"
                raise TamperedError(message, rule="fields", seq=entry.seq)
            (after if mine else before).add(name)
    return frozenset(after - before)


def described(approvals: Sequence[Approved], investigation: str) -> str:
    """What is known of the approvals, for a check that must also work for a copied ledger."""
    parts = []
    for approval in approvals:
        try:
            mine = is_own(approval, investigation)
        except ReproduceError:
            mine = False
        how = "sealed with this user's key" if mine else "sealed elsewhere, not checkable here"
        parts.append(f"approval recorded by {approval.by}, {approval.method}; {how}")
    return "; ".join(parts)


def free_key(store: LedgerStore, investigation: str) -> str:
    """A key for one more approval."""
    taken = {entry.key for entry in store.entries(investigation)}
    if "approval" not in taken:
        return "approval"
    return next(key for number in count(1) if (key := f"approval:{number}") not in taken)


def _seal(key: bytes, plan: str, investigation: str) -> str:
    """HMAC-SHA256 (RFC 2104); the digest of a plan has a fixed length, so the text is unambiguous."""
    text = f"reproduce-approval-v1\n{plan}{investigation}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
