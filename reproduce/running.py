"""From a sealed plan to a finished run on this machine: what every face calls."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from ledger.store import LedgerStore
from matrices import Plan, Setting
from reproduce import clock
from reproduce.engine.loop import Controls, Interrupt, Snapshot
from reproduce.engine.session import Session, approve, check_shown, run, translated
from reproduce.environments import Built, build
from reproduce.errors import InfrastructureError, IntegrityError, UsageError
from reproduce.judging import plan_of
from reproduce.knobs import probe_knobs
from reproduce.planning.file import InvestigationFile, read_file
from reproduce.planning.placeholders import unescaped
from reproduce.planning.sealing import Sealed, seal
from reproduce.state import FOLDER, State, state_of
from reproduce.trees import tree_path, verify_tree
from reproduce.trees.git import git

__all__ = ["approve", "carry_out", "open_store", "register", "seal_file", "translated"]


class Declared(NamedTuple):
    """An investigation file, sealed, and where its state lives."""

    file: InvestigationFile
    sealed: Sealed
    state: State


def open_store(path: Path, *, for_audit: bool = False) -> LedgerStore:
    """The ledger at `path`, made if it is not there.

    With `for_audit` its guards are not checked, so that what is wrong inside can be named.
    """
    from ledger.sqlite import SqliteStore  # noqa: PLC0415 - loads a database library

    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteStore(path, for_audit=for_audit)


def seal_file(path: Path) -> Declared:
    """The sealed plan of the file at `path`; stores its source tree beside it.

    Raises:
        UsageError: a rule is broken; nothing ran.
    """
    declared = read_file(path)
    folder = path.resolve().parent
    state = state_of(folder)
    refuse_tracked(state)
    state.make()
    sealed = seal(declared, folder=folder, state=state, place=path.name)
    return Declared(declared, sealed, state)


def refuse_tracked(state: State) -> None:
    """Refuses a state folder that is under version control: a stranger may have filled it.

    Where git is not installed the question stays open; approvals are sealed all the same.

    Raises:
        IntegrityError: git tracks something in it.
    """
    home = state.root.parent
    if not os.path.lexists(state.root):
        return
    if not any(os.path.lexists(folder / ".git") for folder in (home, *home.parents)):
        return
    try:
        answer = git(home, ["ls-files", "--error-unmatch", "--", FOLDER])
    except UsageError:
        return
    if answer.code == 0:
        message = "the state folder is tracked by git, so it may be somebody else's"
        hint = f"`git rm -r --cached {FOLDER}` and remove the folder; keep evidence elsewhere"
        raise IntegrityError(message, place=str(state.root), hint=hint)


def register(store: LedgerStore, plan: Plan, *, again: bool = False) -> str:
    """The investigation of this plan: the latest one of it, or a new one.

    With `again` a finished investigation gets a sibling instead of being returned.

    Raises:
        TamperedError: the ledger lists an investigation under the digest of another plan.
    """
    digest = plan.digest()
    same = [row for row in store.investigations() if row.plan == digest]
    if same and not (again and same[-1].closed):
        plan_of(store, same[-1].id)
        return same[-1].id
    investigation = clock.new_investigation_id()
    store.open_investigation(investigation, plan, recorded_us=clock.now_us())
    return investigation


def carry_out(
    store: LedgerStore,
    investigation: str,
    plan: Plan,
    *,
    state: State,
    watch: Callable[[Snapshot], None],
    announce: Callable[[str], None],
) -> Session:
    """Runs an approved investigation here until it is finished or a person interrupts it.

    `plan` is the one that was shown to the person; no other runs.

    The first Ctrl-C lets running trials finish, the second kills them.

    Raises:
        ReproduceError: it is not approved, is being run elsewhere, or cannot go on.
    """
    from reproduce.executors.local import LocalExecutor  # noqa: PLC0415 - only where trials run

    check_shown(plan_of(store, investigation), plan.digest())
    if not store.head(investigation).closed:
        check_host(plan, state)
    with interrupts(announce) as interrupted:
        controls = Controls(interrupted=interrupted, watch=watch, is_final=lambda _blocks: None)
        return run(
            store,
            investigation,
            state=state,
            executor=LocalExecutor(world=state.world),
            controls=controls,
            environments=lambda: build_environments(plan, state, announce),
            shown=plan.digest(),
        )


def check_host(plan: Plan, state: State) -> None:
    """Says before anything runs what this host lacks.

    Raises:
        UsageError: a knob cannot be applied here or a program is not there.
        IntegrityError: the stored tree is not what was sealed.
    """
    for condition in plan.conditions:
        for setting, found in probe_knobs(condition.knobs):
            message = f"the knob `{setting.name}` cannot be applied here: {found.why}"
            raise UsageError(message, place=condition.name, hint="`reproduce knobs probe`")
        check_program(plan, condition.name, condition.cmd[0], dict_of(condition.env))
    if plan.source.tree is not None:
        path = tree_path(state.trees, plan.source.tree)
        if not path.is_dir():
            message = f"the stored tree of `{plan.short_name()}` is not there"
            raise InfrastructureError(message, place=str(path), hint="seal the file again")
        verify_tree(path, plan.source.tree)


def check_program(plan: Plan, place: str, program: str, variables: dict[str, str]) -> None:
    """Refuses a program that is nowhere on the plan's own search path.

    A path within the tree or a program that an environment brings is left to the trial.

    Raises:
        UsageError: the program is not there.
    """
    if "/" in program or "{" in program or plan.environments:
        return
    if shutil.which(program, path=unescaped(variables.get("PATH", "/usr/bin:/bin"))) is None:
        message = f"no program `{program}` is on the plan's PATH"
        hint = "name a program that is installed, or a path such as `./probe.sh`"
        raise UsageError(message, place=place, hint=hint)


def dict_of(settings: tuple[Setting, ...]) -> dict[str, str]:
    """Settings as a dictionary."""
    return {setting.name: setting.value for setting in settings}


def build_environments(
    plan: Plan, state: State, announce: Callable[[str], None]
) -> tuple[Built, ...]:
    """The plan's environments, built or found built."""
    built = []
    for index, environment in enumerate(plan.environments):
        announce(f"environment {index + 1} of {len(plan.environments)}")
        search = next(
            unescaped(dict_of(condition.env).get("PATH", ""))
            for condition in plan.conditions
            if condition.environment == index
        )
        tree = None if plan.source.tree is None else tree_path(state.trees, plan.source.tree)
        built.append(
            build(
                environment,
                store=state.environments,
                search_path=search,
                tree=tree,
                tree_digest=plan.source.tree,
            )
        )
    return tuple(built)


_ANSWERS = {
    Interrupt.FINISH: "finishing what runs; Ctrl-C again kills it, and those trials stay unresolved",
    Interrupt.KILL: "killing what runs; it is recorded as cancelled",
}


@contextmanager
def interrupts(announce: Callable[[str], None]) -> Iterator[Callable[[], Interrupt]]:
    """Counts Ctrl-C while the block runs: once to finish what runs, twice to kill it.

    SIGTERM kills at once: whoever sends it will not wait.
    """
    wanted = [Interrupt.NONE]
    answered = [Interrupt.NONE]

    def handle(number: int, _frame: FrameType | None) -> None:
        # Nothing is written here: the signal may have come in the middle of a write.
        killed = number == signal.SIGTERM or wanted[0] >= Interrupt.FINISH
        wanted[0] = Interrupt.KILL if killed else Interrupt.FINISH

    def interrupted() -> Interrupt:
        if wanted[0] > answered[0]:
            answered[0] = wanted[0]
            announce(_ANSWERS[wanted[0]])
        return wanted[0]

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
