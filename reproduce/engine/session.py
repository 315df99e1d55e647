"""One session: hold an investigation, recover what was left, run, and issue the verdict."""

import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import orjson

from ledger.errors import (
    ClosedError,
    FencedError,
    LedgerError,
    StoreUnavailableError,
    TamperedError,
)
from ledger.records import Approval, Closed, EntryKind, VerdictIssued
from ledger.store import Item, LedgerStore
from matrices import Plan
from policies import Verdict
from reproduce import clock
from reproduce.engine.loop import Controls, Ended, Loop
from reproduce.engine.recorder import Counts, Recorder
from reproduce.engine.recovery import recover
from reproduce.engine.worlds import worlds_of
from reproduce.environments import Built
from reproduce.errors import (
    InfrastructureError,
    IntegrityError,
    NotApprovedError,
    ReproduceError,
)
from reproduce.executors.model import Executor
from reproduce.judging import judge, plan_of, story_of
from reproduce.knobs import knob_evidence
from reproduce.matching import Matchers
from reproduce.state import State, held
from reproduce.trees import tree_digest, tree_path


class Session(NamedTuple):
    """How a session ended."""

    ended: Ended
    verdict: Verdict | None
    """`None` where it was interrupted."""


def approve(store: LedgerStore, investigation: str, plan: Plan, *, by: str) -> None:
    """Records that the plan of an investigation may run; approving again changes nothing."""
    approval = Approval(plan=plan.digest(), by=by, method="self")
    item = Item(EntryKind.APPROVAL, "approval", approval.model_dump(mode="json"))
    if story_of(store, investigation).approved_by is None:
        store.append(investigation, [item], recorded_us=clock.now_us())


def run(
    store: LedgerStore,
    investigation: str,
    *,
    state: State,
    executor: Executor,
    controls: Controls,
    environments: Callable[[], Sequence[Built]],
) -> Session:
    """Runs what is not yet recorded of an approved investigation, and judges it at the end.

    `environments` builds the plan's environments; it is called once the plan is known to be
    approved.

    Raises:
        NotApprovedError: no approval of exactly this plan is recorded.
        InfrastructureError: another driver holds it, or the ledger takes no data; resumable.
        IntegrityError: stored records are not what was recorded.
    """
    plan = plan_of(store, investigation)
    with held(state, investigation):
        _check_approval(store, investigation, plan)
        try:
            return _run_held(
                store,
                investigation,
                plan,
                state=state,
                executor=executor,
                controls=controls,
                environments=environments,
            )
        except LedgerError as error:
            raise translated(error) from error


def _run_held(
    store: LedgerStore,
    investigation: str,
    plan: Plan,
    *,
    state: State,
    executor: Executor,
    controls: Controls,
    environments: Callable[[], Sequence[Built]],
) -> Session:
    if store.head(investigation).closed:
        return Session(Ended(None, "closed"), judge(store, investigation)[0])
    session = clock.new_session_id()
    recorder = _recorder(store, investigation, plan)
    slots = min(plan.budget.parallel, plan.budget.trials)
    spools = state.spools(investigation)
    try:
        worlds = worlds_of(plan, state, environments())
        place = executor.start(worlds.worlds, slots=slots, spool=spools / session)
        recovered = recover(worlds, store, investigation, recorder, spools=spools, boot=place.boot)
        unresolved = recovered.unresolved + recorder.counts.unresolved
        recorder.resume_counts(Counts(recovered.recorded, unresolved))
        loop = Loop(
            worlds,
            executor,
            recorder,
            recovered,
            place=place,
            session=session,
            slots=slots,
            controls=controls,
        )
        ended = loop.run()
    finally:
        executor.close()
    if ended.reason is None:
        return Session(ended, None)
    _check_tree(plan, state, recorder)
    verdict = issue(store, investigation, ended, fence=recorder.fence)
    # Everything that the spools held is in the ledger, and no later session will ask for them.
    shutil.rmtree(spools, ignore_errors=True)
    return Session(ended, verdict)


def _check_tree(plan: Plan, state: State, recorder: Recorder) -> None:
    """Records a conflict if the stored tree is no longer what was sealed.

    A trial runs as the user who owns the tree. If one changed it, later trials ran something else
    than was approved, and nothing says which.
    """
    sealed = plan.source.tree
    if sealed is None:
        return
    try:
        found = tree_digest(tree_path(state.trees, sealed))
    except ReproduceError as error:
        found = str(error)
    if found != sealed:
        recorder.conflict("tree", sealed=sealed, found=found)


def _recorder(store: LedgerStore, investigation: str, plan: Plan) -> Recorder:
    def check_knobs(
        condition: int, reported: Mapping[str, str]
    ) -> tuple[Sequence[tuple[str, str]], Sequence[str]]:
        shown, missed = knob_evidence(plan.conditions[condition].knobs, reported)
        return [(setting.name, setting.value) for setting in shown], missed

    return Recorder(
        store,
        investigation,
        plan,
        fence=store.lease(investigation),
        matchers=Matchers(plan.symptoms),
        check_knobs=check_knobs,
        host=socket.gethostname(),
    )


def issue(store: LedgerStore, investigation: str, ended: Ended, *, fence: int) -> Verdict:
    """Judges what is recorded, and makes the verdict and the end durable in one commit."""
    assert ended.reason is not None  # noqa: S101 - callers issue only at an end
    head = store.head(investigation)
    (verdict,) = judge(store, investigation)
    issued = VerdictIssued(
        policy=verdict.policy.name,
        size=head.size,
        root=head.root,
        verdict=verdict.canonical().decode(),
    )
    closed = Closed(reason=ended.reason, detail=ended.detail)
    items = [
        Item(EntryKind.VERDICT, f"verdict:{head.size}", issued.model_dump(mode="json")),
        Item(EntryKind.CLOSED, "closed", closed.model_dump(mode="json")),
    ]
    store.append(investigation, items, recorded_us=clock.now_us(), fence=fence)
    return verdict


def _check_approval(store: LedgerStore, investigation: str, plan: Plan) -> None:
    for entry in store.entries(investigation):
        if entry.kind == EntryKind.APPROVAL:
            approved = orjson.loads(entry.body)["body"]["plan"]
            if approved == plan.digest():
                return
            message = f"the approval is of another plan than `{plan.short_name()}`"
            raise NotApprovedError(message, hint="seal and approve it again")
        if entry.kind == EntryKind.OBSERVATION:
            break
    message = f"the plan `{plan.short_name()}` is not approved"
    raise NotApprovedError(message, hint=f"reproduce approve {plan.short_name()}")


def translated(error: LedgerError) -> ReproduceError:
    """The error of a store, as a command reports it."""
    kind: type[ReproduceError] = InfrastructureError
    hint = error.hint
    match error:
        case TamperedError():
            kind = IntegrityError
        case FencedError():
            hint = "another driver took over; `reproduce status` shows it"
        case ClosedError():
            hint = "it is finished; `reproduce verdict` shows what it gave"
        case StoreUnavailableError():
            hint = f"{error.hint}; nothing recorded is lost, `run` again resumes".lstrip("; ")
        case _:
            pass
    return kind(str(error), place=error.place, hint=hint)
