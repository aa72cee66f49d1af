"""The placer: reads a snapshot, has it planned, and writes the plan by generation.

One thread that sleeps until something changed (a job came, a share was given back, a card
or a quota changed). Deciding happens outside any transaction; the write names what was
read, and a stale plan is an ordinary outcome: the mirror is read anew and planned again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from gpupool.allocations import together
from gpupool.allocations.arrays.members import for_members, make_members
from gpupool.allocations.cards import read_all_cards, read_cards
from gpupool.allocations.hosts import read_all_hosts
from gpupool.allocations.ledger import grant
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.notes import Granted
from gpupool.allocations.pace import Pace
from gpupool.allocations.planner import BATCH, Planner
from gpupool.allocations.waiting import Queued, read_waiting
from gpupool.base.errors import GpupoolError, NoRoomNow, StaleGeneration
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.metering.service import Metering
from gpupool.scheduling.explain import Explanation
from gpupool.scheduling.guarded import PolicyFault
from gpupool.scheduling.snapshot import Plan, Snapshot, Waiting
from gpupool.scheduling.victims import GENTLE, PreemptionRules
from gpupool.store import counters
from gpupool.store.database import Store, Write

TRIES = 5


@dataclass(frozen=True)
class Outcome:
    """What one cycle did."""

    placed: int
    more: bool
    """Another cycle may place more at once: the plan was full, or it was stale."""


@dataclass(frozen=True)
class _Done:
    """What was written of a plan. `waiting`: members of arrays that were `made`, as others leave for them."""

    granted: Granted
    gone: Sequence[str]
    leaving: Mapping[str, str]
    made: tuple[str, ...]
    waiting: tuple[Queued, ...]


@dataclass(frozen=True)
class Arrival:
    """A job that comes: how it waits, and what writes it. `tell` comes last, with the sentence why it waits."""

    waiting: Waiting
    queued: Sequence[Queued]
    insert: Callable[[Write], None]
    tell: Callable[[Write, str], None]


def _mine(arrival: Arrival, plan: Plan) -> list[str]:
    return [placement.job for placement in plan.placements if placement.job in arrival.waiting.heads]


class Placer:
    """Owns the order of plans: one at a time, from any thread."""

    def __init__(
        self,
        store: Store,
        mirror: Mirror,
        metering: Metering,
        on_error: Callable[[BaseException], None],
        rules: PreemptionRules = GENTLE,
    ) -> None:
        self._store, self._mirror, self._metering, self._on_error = store, mirror, metering, on_error
        self.planner = Planner(mirror, store.clock, rules)
        self._cycle_lock, self._refreshing = threading.Lock(), threading.Lock()
        self._pace = Pace()
        self._closing = False
        self._reload_cards = self._reload_tenants = self._reload_reservations = False
        self._look_after = True
        self._stale = 0
        self._fault_told: PolicyFault | None = None
        self._thread = SupervisedThread("placer", self._loop)
        store.hub.listen(self._listen)

    # --- life ----------------------------------------------------------------------------

    def load(self) -> None:
        """Read what waits and what is free; enough for callers that run every cycle themselves."""
        with self._store.read() as connection:
            self._mirror.load(connection, self._store.clock.now_ns())
            self.planner.note_evicted(together.latest_evictions(connection), anew=True)
            self.planner.load(connection)

    def start(self) -> None:
        self.load()
        self._thread.start()
        self._pace.hurry()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self._closing = True
        self._thread.stop()
        self._pace.hurry()
        self._thread.join()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        self._reload_cards |= "fleet" in topics
        self._reload_tenants |= "quota" in topics
        self._reload_reservations |= "reservations" in topics
        if topics & {"fleet", "quota", "queue", "reservations"}:
            self._pace.hurry()

    def _loop(self) -> None:
        while not self._closing:
            self._pace.wait(self.planner.next_look())
            try:
                while not self._closing and self._run_in_time():
                    pass
            except BaseException:
                self._pace.hurry()  # whoever calls this loop again after a pause need not wait for an event as well
                raise
            self._thread.well()

    def _run_in_time(self) -> bool:
        with busy():
            return self.run_once().more

    # --- answers -------------------------------------------------------------------------

    def turns(self, snapshot: Snapshot, limit: int) -> list[tuple[Waiting, int]]:
        """At most so many classes with the number of the head whose turn it is, in the order of their turns now."""
        with self._cycle_lock:
            return self.planner.turns(snapshot, limit)

    def explain(self, job: str) -> tuple[Waiting, Explanation] | None:
        """Why it waits, and what would help; None where it waits no more: nothing is placed while that is found out."""
        with self._cycle_lock:
            self.refresh()
            waiting = self._mirror.waiting(job)
            return None if waiting is None else (waiting, self.planner.explain(waiting, job))

    def refresh(self) -> None:
        """Take in what other rooms changed since the last plan; from any thread, done for all when it returns."""
        with self._refreshing:
            cards, self._reload_cards = self._reload_cards, False
            people, self._reload_tenants = self._reload_tenants, False
            later, self._reload_reservations = self._reload_reservations, False
            self._look_after |= cards
            if not (cards or people or later):
                return
            try:
                self._reread_parts(cards=cards, people=people, later=later)
            except BaseException:
                self._reload_cards |= cards
                self._reload_tenants |= people
                self._reload_reservations |= later
                raise

    def _reread_parts(self, *, cards: bool, people: bool, later: bool) -> None:
        # What is noted meanwhile waits: an older view must not cover it.
        with self._store.read() as connection, self._mirror.lock:
            if later:
                self._mirror.load_reservations(connection)
            if cards:
                self._mirror.load_cards(connection)
            if people:
                self._mirror.load_tenants(connection)

    @contextmanager
    def standing_still(self, cards: Collection[str] = ()) -> Iterator[Snapshot]:
        """The pool as it is now, with what is promised; nothing is placed until the block ends.

        Where the block finds its plan for these cards stale, they are read anew for whoever plans next.
        """
        with self._cycle_lock:
            self.refresh()
            try:
                yield self.planner.snapshot()
            except StaleGeneration:
                counters.decisions.conflict()
                self._look_at(cards)
                raise
        self._pace.hurry()

    def seen(self) -> Snapshot:
        """The pool as the next cycle will see it, with what is promised."""
        with self._cycle_lock:
            self.refresh()
            return self.planner.snapshot()

    # --- acting --------------------------------------------------------------------------

    def run_once(self) -> Outcome:
        """One cycle over everything that waits."""
        with self._cycle_lock:
            self._tell_fault()
            self.refresh()
            self._send_elsewhere()
            if not self._mirror.waiting_count():
                self.planner.forget()
                return Outcome(0, more=False)
            snapshot = self.planner.snapshot()
            plan = self.planner.plan(snapshot)
            self.planner.keep(plan)
            self._tell_fault()
            if not plan.placements and not plan.evictions:
                self._save_promises()
                return Outcome(0, more=False)
            try:
                with self._store.write() as write:
                    done = self._carry_out(write, plan)
                    write.note(partial(self._settle, done))
            except StaleGeneration:
                self._reread(plan)
                return Outcome(0, more=True)
            self._stale = 0
            full = len(plan.placements) >= BATCH or any(item.count > len(item.heads) for item in snapshot.waiting)
            return Outcome(len(done.granted.jobs), more=full or bool(done.gone))

    def take_in(self, arrival: Arrival, *, wait: bool) -> None:
        """Write a job and, where there is room, its grant in one transaction; else it waits, or NoRoomNow is raised."""
        with self._cycle_lock:
            looked_again = False
            for _attempt in range(TRIES):
                self.refresh()
                plan = self.planner.plan(self.planner.snapshot(arrival.waiting))
                if self.planner.fault != self._fault_told:
                    self._pace.hurry()
                if not wait and len(_mine(arrival, plan)) < len(arrival.waiting.heads):
                    if looked_again:
                        raise self._no_room(arrival.waiting)
                    # An end that the caller has already heard of is noted here a moment after it is written.
                    looked_again = True
                    self._look_again()
                    continue
                try:
                    self._write_arrival(arrival, plan)
                    return
                except StaleGeneration:
                    self._reread(plan)
            if not wait:
                raise NoRoomNow("the pool changed faster than this claim could be placed", hint="try again")
            self._write_arrival(arrival, Plan(plan.generation, (), {}), kept=False)
            self._pace.hurry()

    def _write_arrival(self, arrival: Arrival, plan: Plan, *, kept: bool = True) -> None:
        """`kept`: what the plan says of others is what is so from now on."""
        rejection = plan.rejections.get(arrival.waiting.key)
        with self._store.write() as write:
            arrival.insert(write)
            done = self._carry_out(write, plan)
            arrival.tell(write, rejection.sentence if rejection else "not looked at yet")
            placed = done.granted.jobs
            write.note(lambda: self._mirror.enqueue(item for item in arrival.queued if item.job not in placed))
            write.note(lambda: self._settle(done))
        self._stale = 0
        if kept:
            self.planner.keep(plan)
        if self.planner.told.is_urgent:
            self._pace.hurry()
        if len(placed) > len(_mine(arrival, plan)):  # others had their turn as well: there may be more of them
            self._pace.hurry()

    def _save_promises(self) -> None:
        """A promise that was made or broken is on disk before the next plan, also where nothing else is written."""
        if self.planner.told.is_urgent:
            with self._store.write() as write:
                self.planner.told.save(write)

    def take_in_later(self, arrival: Arrival) -> None:
        """Write a job that nobody waits for; it is placed with those that come at the same time."""
        with self._store.write() as write:
            arrival.insert(write)
            arrival.tell(write, "submitted a moment ago")
            write.note(lambda: self._mirror.enqueue(arrival.queued))
        self._pace.soon()

    def _no_room(self, waiting: Waiting) -> NoRoomNow:
        answer = self.planner.explain(waiting)
        sentence = "claims of higher rank take the room there is" if answer.dominant is None else answer.sentence
        return NoRoomNow(sentence, hint="; ".join((*answer.helps[:1], "leave out --no-wait to wait for room")))

    def _tell_fault(self) -> None:
        """An event when a policy has failed, and one when it works again; a store that refuses hears it later."""
        fault = self.planner.fault
        if fault == self._fault_told:
            return
        told = fault or self._fault_told
        assert told is not None
        kind = "scheduler.policy_failed" if fault else "scheduler.policy_restored"
        data = {"sentence": told.sentence, "error": told.error} if fault else {}
        try:
            with self._store.write() as write:
                write.event(kind, told.policy, data=data)
        except GpupoolError as error:
            self._on_error(error)
            return
        self._fault_told = fault

    def _send_elsewhere(self) -> None:
        """Jobs on cards that are not well any more leave them, where they asked to start again."""
        looked, self._look_after = self._look_after, False
        names = self._mirror.to_recover() if looked else []
        if not names:
            return
        try:
            with self._store.write() as write:
                asked = together.send_elsewhere(write, names)
                write.note(lambda: self._mirror.note_leaving(asked))
        except BaseException:
            self._look_after = True
            raise

    def _look_again(self) -> None:
        """Take in what was given back a moment ago; far less than reading all that is known of the cards."""
        self._reload_tenants = True
        with self._store.read() as connection:
            cards, hosts = read_all_cards(connection), read_all_hosts(connection)
        self._mirror.note_cards(cards)
        self._mirror.note_hosts(hosts)

    def _reread(self, plan: Plan) -> None:
        """Look again at the cards of a stale plan; at everything when that did not help."""
        counters.decisions.conflict()
        self._stale += 1
        if self._stale > 1:
            self.load()
            return
        self._look_at({seat.device for placement in plan.placements for seat in placement.seats})

    def _look_at(self, uuids: Collection[str]) -> None:
        with self._store.read() as connection:
            self._mirror.note_cards(read_cards(connection, uuids))

    def _carry_out(self, write: Write, plan: Plan) -> _Done:
        """Write what the plan decided."""
        granted, gone = grant(write, self._metering, plan.placements)
        seated = {*granted.jobs, *granted.made}
        self.planner.told.save(write, {one.gang or one.job for one in plan.placements if one.job in seated})
        made = make_members(write, (one.beneficiary for one in plan.evictions))
        leaving = together.evict(write, for_members(plan.evictions, made), self.planner.rules.grace_s)
        again = tuple(read_waiting(write.connection, made.values(), self._mirror.seconds)) if made else ()
        return _Done(granted, gone, leaving, tuple(made), again)

    def _settle(self, done: _Done) -> None:
        self._mirror.note_granted(done.granted)
        self._mirror.note_made(done.made)
        self._mirror.enqueue(done.waiting, again=True)
        now_ns = self._store.clock.now_ns()
        left = self._mirror.note_leaving(done.leaving, done.leaving)
        self.planner.note_evicted((now_ns, tenant) for tenant in left)
        self._mirror.dequeue([*done.granted.jobs, *done.gone])
