"""Reads an investigation back from its ledger and judges it: the same records, the same verdict."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from ledger.errors import TamperedError
from ledger.records import EntryKind
from ledger.store import InvestigationRow, LedgerStore, StoredEntry
from ledger.tree import Tree, leaf_hash
from matrices import Plan, PolicyRef, Setting
from policies import Evidence, Tally, Verdict, evidence_of, tallies
from policies.registry import complete, reduce
from reproduce.report.model import Account

JUDGED = frozenset({EntryKind.OBSERVATION, EntryKind.CONFLICT, EntryKind.UNSEALED})


class Approved(NamedTuple):
    """An approval as it stands in a ledger; whose it is, `reproduce.approvals` can tell."""

    plan: str
    by: str
    method: str
    seal: str
    recorded: int
    """How many observations stand before it."""

    @classmethod
    def of(cls, body: dict[str, Any], *, recorded: int) -> "Approved":
        """What the body of an entry says, which may be of a ledger that somebody made up."""
        seal = str(body.get("seal", ""))
        return cls(body["plan"], body["by"], body["method"], seal, recorded)


class Story(NamedTuple):
    """What an investigation's entries say beside its observations."""

    approved_by: str | None
    approvals: tuple[Approved, ...]
    """All of them, oldest first; `approved_by` is the name in the last."""
    sessions: int
    places: tuple[Setting, ...]
    conflicts: int
    unsealed: bool
    closed: str | None
    """Why it takes no more trials."""
    issued: tuple[str, ...]
    """The verdicts that were issued here, as canonical JSON text, oldest first."""
    recorded: int
    late: int


def plan_of(store: LedgerStore, investigation: str) -> Plan:
    """The sealed plan of an investigation, its bytes checked.

    Raises:
        TamperedError: it is not the plan that the investigation is listed with.
    """
    plan = Plan.from_canonical(store.plan_bytes(investigation))
    listed = next(row.plan for row in store.investigations() if row.id == investigation)
    if plan.digest() != listed:
        message = f"the stored plan of `{investigation}` is not the one that is listed"
        hint = "the ledger was altered: `reproduce verify` says more"
        raise TamperedError(message, rule="plan", seq=0, hint=hint)
    return plan


def checked(store: LedgerStore, investigation: str) -> Iterator[StoredEntry]:
    """The entries in order, refused where their bytes are not those that the root was made of.

    Raises:
        TamperedError: names the entry, or the root where no single entry can be named.
    """
    head, tree = store.head(investigation), Tree()
    hint = "`reproduce verify` says more"
    for entry in store.entries(investigation):
        leaf = leaf_hash(entry.body)
        if leaf != entry.leaf:
            message = f"entry {entry.seq} of `{investigation}` is not what was recorded"
            raise TamperedError(message, rule="leaf", seq=entry.seq, hint=hint)
        if tree.size < head.size:
            tree.append(leaf)
        yield entry
    if tree.size != head.size or tree.root().hex() != head.root:
        message = f"the entries of `{investigation}` are not those of its root"
        raise TamperedError(message, rule="root", hint=hint)


def bodies(store: LedgerStore, investigation: str) -> Iterator[dict[str, Any]]:
    """The observations in the order of the ledger, as they were parsed."""
    for entry in store.entries(investigation):
        if entry.kind == EntryKind.OBSERVATION:
            yield orjson.loads(entry.body)["body"]


def story_of(store: LedgerStore, investigation: str) -> Story:
    """What the entries say of approval, places, conflicts, looks and the end.

    Raises:
        TamperedError: the entries are not those that the ledger's head stands for.
    """
    story = Story(None, (), 0, (), 0, unsealed=False, closed=None, issued=(), recorded=0, late=0)
    sessions: set[str] = set()
    for entry in checked(store, investigation):
        if entry.kind == EntryKind.OBSERVATION:
            story = story._replace(recorded=story.recorded + 1)
            continue
        body = orjson.loads(entry.body)["body"]
        match entry.kind:
            case EntryKind.APPROVAL:
                approvals = (*story.approvals, Approved.of(body, recorded=story.recorded))
                story = story._replace(approved_by=body["by"], approvals=approvals)
            case EntryKind.INTENT:
                sessions.add(body["session"])
                places = tuple(Setting(**setting) for setting in body["place"])
                story = story._replace(places=places, sessions=len(sessions))
            case EntryKind.CONFLICT:
                story = story._replace(conflicts=story.conflicts + 1)
            case EntryKind.UNSEALED:
                story = story._replace(unsealed=True)
            case EntryKind.CLOSED:
                story = story._replace(closed=_end(body))
            case EntryKind.VERDICT:
                story = story._replace(issued=(*story.issued, body["verdict"]))
            case EntryKind.LATE_RESULT:
                story = story._replace(late=story.late + 1)
            case _:
                pass
    return story


def _end(body: dict[str, Any]) -> str:
    words = str(body["reason"]).replace("_", " ")
    return f"{words}: {body['detail']}" if body["detail"] else words


def evidence(
    store: LedgerStore, investigation: str, plan: Plan, story: Story, symptom: str | None = None
) -> Evidence:
    """The evidence of an investigation for its primary symptom, or for another one by name."""
    wanted = next((item for item in plan.symptoms if item.name == symptom), None)
    return evidence_of(
        plan,
        bodies(store, investigation),
        symptom=wanted,
        conflicts=story.conflicts,
        unsealed=story.unsealed,
    )


def judge(
    store: LedgerStore, investigation: str, policies: tuple[PolicyRef, ...] = ()
) -> tuple[Verdict, ...]:
    """The verdict of the declared policy, or of the given ones, on what is recorded now."""
    plan, story = plan_of(store, investigation), story_of(store, investigation)
    found = evidence(store, investigation, plan, story)
    return tuple(reduce(plan, found, policy) for policy in policies or (plan.policy,))


def policy_for(plan: Plan, name: str) -> PolicyRef:
    """The plan's own policy where `name` names it, else that policy with its defaults."""
    return plan.policy if plan.policy.name == name else complete(name, {})


def account_of(
    store: LedgerStore,
    investigation: str,
    *,
    ledger: str,
    policy: PolicyRef | None = None,
    others: tuple[PolicyRef, ...] = (),
    next_commands: tuple[str, ...] = (),
) -> Account:
    """Everything that a report shows of an investigation, under its own policy or another."""
    plan, story = plan_of(store, investigation), story_of(store, investigation)
    found = evidence(store, investigation, plan, story)
    head = store.head(investigation)
    return Account(
        investigation=investigation,
        plan=plan,
        verdict=reduce(plan, found, policy),
        declared_policy=plan.policy,
        entries=head.size,
        root=head.root,
        siblings=len(siblings(store, investigation)),
        ledger=ledger,
        others=tuple(reduce(plan, found, other) for other in others),
        secondary=_secondary(store, investigation, plan, story),
        places=story.places,
        stop=story.closed,
        next_commands=next_commands,
        closed=story.closed is not None,
    )


def _secondary(
    store: LedgerStore, investigation: str, plan: Plan, story: Story
) -> tuple[tuple[str, tuple[Tally, ...]], ...]:
    counted = []
    for symptom in plan.symptoms:
        if symptom.name != plan.primary:
            found = evidence(store, investigation, plan, story, symptom.name)
            counted.append((symptom.name, tallies(plan, found)))
    return tuple(counted)


def siblings(store: LedgerStore, investigation: str) -> tuple[InvestigationRow, ...]:
    """Investigations in this ledger of the same plan or the same issue, this one included."""
    rows = store.investigations()
    own = next(row for row in rows if row.id == investigation)
    return tuple(
        row
        for row in rows
        if row.plan == own.plan or (own.issue is not None and row.issue == own.issue)
    )
