"""Serves shares of a card to jobs of one owner through MPS.

An allocation goes through these steps, each of which is repeated after a kill: the note, the card's
record, the compute mode, the daemon (which the agent starts as a helper), the limits on the server,
the job's own files. The levels: by protocol 3 a namespace holds memory and compute of each process,
and an unmodified program stays below (soft). By protocol 2 the server holds the largest share, and
a job's own share is in its environment (advisory). Nothing holds a fault: it ends all clients.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import DamagedRecord, NotFound, RequestRejection
from gpupool.mechanisms.bookkeeping import SHARE_FILE, build_share_document, find_share_problem
from gpupool.mechanisms.card_settings.compute_mode import ComputeModeControl, DriverComputeModes
from gpupool.mechanisms.card_settings.records import CardRecord, CardUse
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    HelperProcess,
    NotYet,
    ObservedAllocation,
    PreparationStep,
    PreparedAllocation,
)
from gpupool.mechanisms.mps.cards import MpsCards
from gpupool.mechanisms.mps.control import ControlClient, ControlProgram
from gpupool.mechanisms.mps.daemon import DaemonProcesses
from gpupool.mechanisms.mps.refusal import (
    SHARING,
    CardSituation,
    find_neighbour_problem,
    find_own_problem,
)
from gpupool.mechanisms.mps.servers import ServerState, compute_percentage, write_mebibytes
from gpupool.mechanisms.notes import NoteBook, PreparationNote, replace_file, replace_text
from gpupool.mechanisms.offers.summaries import MechanismSummary, ReachedLevels
from gpupool.mechanisms.visibility import build_environment, list_device_nodes
from gpupool.model.device import Device
from gpupool.model.isolation.claim_needs import ClaimGoal
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass
from gpupool.model.partition import PartitionProfile

#: Seconds until a daemon and its server must serve; a server makes its context in one to three.
START_SECONDS: Final = 20
#: Seconds between two looks at a daemon that starts.
PAUSE_SECONDS: Final = 0.25

_FAULT = "an error in one job's program ends all jobs on this card's MPS server"
_WHY = {
    "2": f"MPS holds the largest share on the card; a job can raise its own to that; {_FAULT}",
    "3": f"MPS holds each process of the job to the share, not all of them together; {_FAULT}",
}
_LEVELS = {"2": FenceLevel.ADVISORY, "3": FenceLevel.SOFT}


def _find_levels(_device: Device, _host: HostFacts) -> ReachedLevels:
    """Return what the program of this host enforces."""
    variant = "3" if ControlProgram().has_namespaces() else "2"
    return ReachedLevels(_spread(_LEVELS[variant]), _WHY[variant])


class MpsMechanism:
    """Shares for jobs of one owner on one card. Thread-safe.

    Args:
        clock_ns: UTC.
    """

    name = SHARING
    summary = MechanismSummary(
        EnforcementLevels(memory=FenceLevel.SOFT, compute=FenceLevel.SOFT),
        (HostKind.PROCESS,),
        SizeClass.ANY,
        "NVIDIA, one owner a card; advisory below protocol 3; by --sharing mps",
        "NVIDIA's control daemon 535 without a card; a stand-in for protocol 3; no real card",
        one_owner=True,
        favours=(ClaimGoal.THROUGHPUT, ClaimGoal.DENSITY),
        sharing=(SHARING,),
        find_levels=_find_levels,
    )

    def __init__(
        self,
        modes: ComputeModeControl | None = None,
        control: ControlClient | None = None,
        processes: DaemonProcesses | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._modes = modes or DriverComputeModes()
        self._control = control or ControlProgram()
        self._processes = processes or DaemonProcesses()
        self._clock_ns = clock_ns
        self._lock = threading.Lock()

    def fence_level(self) -> FenceLevel:
        """Return the best level; that of an allocation is in its note."""
        return FenceLevel.SOFT

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        return ()

    def explain_refusal(self, view: AllocationView) -> str:
        return find_own_problem(view) or self._control.explain_absence()

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        """Make the allocation usable; the answer names the daemon until it serves.

        Raises:
            StaleGeneration: a younger generation is on record.
            RequestRejection: MPS cannot serve it, alone or beside what runs.
            ServiceUnavailable: the card's compute mode cannot be read or set.
        """
        if reason := self.explain_refusal(view):
            raise self._refuse(view, reason)
        with self._lock:
            cards = self._open_cards(state_dir)
            cards.close_unused()
            record = self._describe_card(view, cards, state_dir)
            book = NoteBook(state_dir)
            note = book.begin_preparing(_build_note(view, record))
            place = cards.open_card(record)
            state = cards.get_server(record).configure(place.target, record)
            problem = state.refusal or (state.pid and place.find_server_problem(state.pid))
            if problem:
                raise self._refuse(view, problem)
            if not state.has_daemon and (left := self._count_prepared(record, book)):
                # Another daemon would find the card taken by what they and their server hold.
                return NotYet(f"waits for {left} jobs of an MPS daemon that is gone to end", 1)
            if state.pid is None:
                return self._wait(view, cards, record, state)
            cards.mark_waiting(record, 0)
            _write_share(book, note)
            book.write_note(replace(note, step=PreparationStep.PREPARED))
            return self._describe_preparation(view, cards, record, book)

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Set other limits on the server; they hold for processes that connect from now on."""
        with self._lock:
            book = NoteBook(state_dir)
            cards = self._open_cards(state_dir)
            known = book.read_note(view.allocation)
            record = None if known is None else cards.records.read_record(_read_uuid(known))
            if record is None:
                raise NotFound(f"allocation {view.allocation} is not prepared on this node")
            record = record.with_user(view.allocation, _describe_use(view))
            note = book.begin_preparing(_build_note(view, record))
            place = cards.open_card(record)
            state = cards.get_server(record).configure(place.target, record)
            if state.refusal:
                raise self._refuse(view, state.refusal)
            _write_share(book, note)
            book.write_note(replace(note, step=PreparationStep.PREPARED))

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Undo; the last allocation of a card ends its daemon. Blocks for seconds at most.

        Raises:
            StaleGeneration: a younger generation is on record.
            ServiceUnavailable: the card is not restored; call again.
        """
        with self._lock:
            book = NoteBook(state_dir)
            cards = self._open_cards(state_dir)
            if (
                book.begin_releasing(self.name, allocation, generation) is not None
                or book.read_note(allocation) is None
            ):
                cards.remove_user(allocation)
                book.remove_note(allocation)
            cards.close_unused()

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        book = NoteBook(state_dir)
        cards = self._open_cards(state_dir)
        observed = {}
        for note in book.iterate_mechanism(self.name):
            problem = ""
            if note.step is PreparationStep.PREPARED:
                problem = _find_problem(note, book, cards)
            observed[note.allocation] = ObservedAllocation(
                note.allocation, note.generation, note.step, problem
            )
        return observed

    def read_enforcement(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        try:
            note = NoteBook(state_dir).read_note(allocation)
        except DamagedRecord as damaged:
            return FenceLevel.NONE, str(damaged)
        if note is None:
            return FenceLevel.NONE, ""
        return FenceLevel(note.made["share"]["fence"]), str(note.made["share"]["fence_why"])

    def read_levels(self, allocation: str, state_dir: Path) -> EnforcementLevels:
        return _spread(self.read_enforcement(allocation, state_dir)[0])

    def _open_cards(self, state_dir: Path) -> MpsCards:
        return MpsCards(state_dir, self._modes, self._control, self._processes)

    def _describe_card(self, view: AllocationView, cards: MpsCards, state_dir: Path) -> CardRecord:
        """Return the card's record with the allocation in it; nothing is changed yet.

        Raises:
            RequestRejection: what else runs on the node or on the card excludes the allocation.
        """
        uuid = view.granted[0].device.uuid
        record = cards.records.read_record(uuid)
        mode = self._modes.read_mode(uuid)
        situation = CardSituation(
            record,
            mode,
            tuple(NoteBook(state_dir).iterate_all()),
            self._count_clients(cards, record, view.allocation),
            self._processes.find_foreign(uuid, cards.root),
        )
        if reason := find_neighbour_problem(view, situation):
            raise self._refuse(view, reason)
        if record is None:
            seat = view.seat
            variant = "3" if self._control.has_namespaces() else "2"
            record = CardRecord(uuid, str(mode), view.tenant, seat.uid, seat.gid, variant=variant)
        place = cards.locate_daemon(record)
        if reason := place.explain_length(cards.get_server(record).longest_socket):
            raise self._refuse(view, reason)
        return record.with_user(view.allocation, _describe_use(view))

    @staticmethod
    def _count_clients(cards: MpsCards, record: CardRecord | None, allocation: str) -> int:
        if record is None or allocation in record.users:
            return 0
        return cards.get_server(record).count_clients(cards.locate_daemon(record).target)

    def _count_prepared(self, record: CardRecord, book: NoteBook) -> int:
        users = book.iterate_mechanism(self.name)
        prepared = {note.allocation for note in users if note.step is PreparationStep.PREPARED}
        return len(prepared & set(record.users))

    def _wait(
        self, view: AllocationView, cards: MpsCards, record: CardRecord, state: ServerState
    ) -> NotYet:
        now_ns = self._clock_ns()
        place = cards.locate_daemon(record)
        if not record.waiting_since_ns:
            cards.mark_waiting(record, now_ns)
            if not state.has_daemon:
                # A server outlives a daemon that was killed, and no job uses it any more.
                self._processes.end_processes(place.target, is_asked=False)
                place.remove_stale_sockets()
        elif now_ns - record.waiting_since_ns > START_SECONDS * 10**9:
            cards.mark_waiting(record, 0)
            raise self._refuse(
                view,
                f"{state.missing} did not start in {START_SECONDS} s (logs: {place.target.log})",
            )
        helper = self._describe_helper(cards, record)
        return NotYet(f"waits for {state.missing}", PAUSE_SECONDS, (helper,))

    def _describe_helper(self, cards: MpsCards, record: CardRecord) -> HelperProcess:
        arguments = cards.get_server(record).list_arguments()
        place = cards.locate_daemon(record)
        return place.describe_helper(self._control.locate_program(), arguments)

    def _describe_preparation(
        self, view: AllocationView, cards: MpsCards, record: CardRecord, book: NoteBook
    ) -> PreparedAllocation:
        opened, closed = list_device_nodes(view)
        level = _LEVELS[record.variant]
        return PreparedAllocation(
            {**build_environment(view), **_build_client_environment(view, cards, record)},
            opened,
            closed,
            book.locate_folder(view.allocation) / "share",
            level,
            (f"fence: {level}", _WHY[record.variant]),
            levels=_spread(level),
            # A restarted daemon has no limits: only `prepare` starts one.
            helpers=(replace(self._describe_helper(cards, record), restarts=False),),
        )

    def _refuse(self, view: AllocationView, reason: str) -> RequestRejection:
        return RequestRejection(f"{self.name} cannot serve allocation {view.allocation}: {reason}")


def _spread(level: FenceLevel) -> EnforcementLevels:
    return EnforcementLevels(memory=level, compute=level)


def _describe_use(view: AllocationView) -> CardUse:
    grant = view.granted[0]
    return CardUse(view.generation, grant.gpu_milli, grant.memory_bytes)


def _build_note(view: AllocationView, record: CardRecord) -> PreparationNote:
    share = build_share_document(view, _LEVELS[record.variant], _WHY[record.variant])
    return PreparationNote(
        SHARING,
        view.allocation,
        view.generation,
        PreparationStep.PREPARING,
        made={"share": share},
    )


def _read_uuid(note: PreparationNote) -> str:
    return str(note.made["share"]["devices"][0]["uuid"])


def _write_share(book: NoteBook, note: PreparationNote) -> None:
    folder = book.locate_folder(note.allocation) / "share"
    replace_file(folder / SHARE_FILE, note.made["share"])
    replace_text(folder / "devices", f"{_read_uuid(note)}\n")


def _build_client_environment(
    view: AllocationView, cards: MpsCards, record: CardRecord
) -> dict[str, str]:
    grant = view.granted[0]
    target = cards.locate_daemon(record).target
    return {
        "CUDA_MPS_PIPE_DIRECTORY": str(
            cards.get_server(record).locate_pipe(target, view.allocation)
        ),
        # The client's values can only lower the server's.
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{compute_percentage(grant.gpu_milli):g}",
        # 0 is the only card that the job sees; naming one that it does not see drops all limits.
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={write_mebibytes(grant.memory_bytes)}",
    }


def _find_problem(note: PreparationNote, book: NoteBook, cards: MpsCards) -> str:
    share: Mapping[str, Any] = note.made["share"]
    try:
        record = cards.records.read_record(_read_uuid(note))
    except DamagedRecord as damaged:
        return damaged.message
    if record is None or note.allocation not in record.users:
        return "the record of its card is gone"
    folder = book.locate_folder(note.allocation)
    return cards.find_problem(record) or find_share_problem(folder / "share" / SHARE_FILE, share)
