"""One session: hold an investigation, recover what was left, run, and issue the verdict."""

import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ledger.errors import (
    ClosedError,
    FencedError,
    LedgerError,
    StoreUnavailableError,
    TamperedError,
)
from ledger.records import Closed, EntryKind, VerdictIssued
from ledger.store import Item, LedgerStore
from matrices import Plan
from policies import Verdict
from reproduce import approvals, clock
from reproduce.engine.loop import Controls, Ended, Loop
from reproduce.engine.recorder import Counts, Recorder
from reproduce.engine.recovery import recover
from reproduce.engine.worlds import worlds_of
from reproduce.environments import Built, verify_environment
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
    """Records, sealed by this user, that the plan of an investigation may run.

    Approving again changes nothing. An approval that was sealed elsewhere does not count here, so
    another one is recorded beside it.

    Raises:
        ClosedError: the investigation is finished and was approved elsewhere.
        IntegrityError: somebody else can read or choose this user's key.
    """
    digest = plan.digest()
    if approvals.own(story_of(store, investigation), investigation, digest):
        return
    approval = approvals.sealed(digest, investigation, by=by)
    key = approvals.free_key(store, investigation)
    item = Item(EntryKind.APPROVAL, key, approval.model_dump(mode="json"))
    store.append(investigation, [item], recorded_us=clock.now_us())


def run(
    store: LedgerStore,
    investigation: str,
    *,
    state: State,
    executor: Executor,
    controls: Controls,
    environments: Callable[[], Sequence[Built]],
    shown: str | None = None,
) -> Session:
    """Runs what is not yet recorded of an approved investigation, and judges it at the end.

    `environments` builds the plan's environments; it is called once the plan is known to be
    approved. `shown` is the digest of the plan that a person saw; no other one runs. Of a finished
    investigation nothing runs, whoever approved it.

    Raises:
        NotApprovedError: this user sealed no approval of exactly this plan, or saw another.
        InfrastructureError: another driver holds it, or the ledger takes no data; resumable.
        IntegrityError: stored records are not what was recorded.
    """
    plan = plan_of(store, investigation)
    check_shown(plan, shown)
    with held(state, investigation):
        if not store.head(investigation).closed:
            _check_approval(store, investigation, plan)
        try:
            if not store.head(investigation).closed:
                _drop_strange_spools(store, investigation, plan, state)
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
        built = environments()
        worlds = worlds_of(plan, state, built)
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
    _check_environments(built, recorder)
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


def _check_environments(built: Sequence[Built], recorder: Recorder) -> None:
    """Records a conflict for every environment that is no longer what was built."""
    for index, environment in enumerate(built):
        try:
            verify_environment(environment)
        except IntegrityError as error:
            recorder.conflict(f"environment:{index}", sealed=environment.digest, found=str(error))


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


def check_shown(plan: Plan, shown: str | None) -> None:
    """Refuses a stored plan that is not the one with the digest `shown`.

    Raises:
        NotApprovedError: it is another plan.
    """
    if shown is not None and plan.digest() != shown:
        message = f"the ledger holds another plan, `{plan.short_name()}`, than was shown"
        raise NotApprovedError(message, hint="nothing ran; `reproduce verify` says more")


def _drop_strange_spools(store: LedgerStore, investigation: str, plan: Plan, state: State) -> None:
    """Removes spools of sessions that this user did not approve, as if they had never come.

    What they hold would become records of this session, though nobody here ran it.
    """
    folder = state.spools(investigation)
    known = approvals.own_sessions(store, investigation, plan.digest())
    for left in sorted(folder.iterdir()) if folder.is_dir() else ():
        if left.is_symlink() or not left.is_dir():
            left.unlink()
        elif left.name not in known:
            shutil.rmtree(left)


def _check_approval(store: LedgerStore, investigation: str, plan: Plan) -> None:
    story, digest, name = story_of(store, investigation), plan.digest(), plan.short_name()
    if approvals.own(story, investigation, digest):
        return
    hint = f"reproduce approve {name}"
    if not story.approvals:
        raise NotApprovedError(f"the plan `{name}` is not approved", hint=hint)
    if all(approval.plan != digest for approval in story.approvals):
        message = f"the approval is of another plan than `{name}`"
        raise NotApprovedError(message, hint="seal and approve it again")
    raise NotApprovedError(f"the plan `{name}` was approved elsewhere, not by you", hint=hint)


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
