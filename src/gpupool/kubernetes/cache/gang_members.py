"""Counts, for each gang, the members with entries in ledgers and the members that have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from gpupool.kubernetes.cache.pending_pods import PresentMembers
from gpupool.kubernetes.cache.seat_handover import SeatHandover
from gpupool.kubernetes.resources.gang import is_future_member
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod

T = TypeVar("T")


class GangMembers:
    """Members of all gangs. `pods` and `handover` belong to the cluster cache and are only read."""

    def __init__(self, pods: Mapping[str, Pod], handover: SeatHandover) -> None:
        self._pods = pods
        self._handover = handover
        #: By gang and member, what stands in ledgers.
        self._entries: defaultdict[str, dict[str, list[Entry]]] = defaultdict(dict)
        #: By gang the seats of members that do not exist yet.
        self._kept: defaultdict[str, set[str]] = defaultdict(set)
        #: By gang its pods that are over and still there.
        self._over: defaultdict[str, set[str]] = defaultdict(set)

    def note_entries(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """Note entries that left a ledger and entries that came."""
        for entry in gone:
            self._remove_entry(entry)
            self._kept[entry.gang].discard(entry.uid)
        for entry in come:
            if entry.gang:
                self._entries[entry.gang].setdefault(entry.uid, []).append(entry)
            if is_future_member(entry.uid):
                self._kept[entry.gang].add(entry.uid)
        for gang in {entry.gang for entry in gone}:
            if not self._entries[gang]:
                del self._entries[gang]
            if not self._kept[gang]:
                del self._kept[gang]

    def _remove_entry(self, entry: Entry) -> None:
        """Remove one entry of a member."""
        # Not all of them: two controllers may have written the same member into two ledgers.
        members = self._entries[entry.gang]
        left = []
        for one in members.get(entry.uid, ()):
            if one != entry:
                left.append(one)
        if left:
            members[entry.uid] = left
        else:
            members.pop(entry.uid, None)

    def note_ended(self, gang: str, uid: str, *, gone: bool) -> None:
        """Note that a pod of the gang has ended, or (`gone`) that it is deleted."""
        # A pod that is deleted after it has ended does not count any more: a gang that is created
        # anew under the same name must not find its members complete.
        if not gone:
            self._over[gang].add(uid)
            return
        self._over[gang].discard(uid)
        if not self._over[gang]:
            del self._over[gang]

    def present_members(self, gang: str) -> PresentMembers:
        """Members of the gang that have cards and stay, and the number that has ended."""
        staying = {}
        for uid, found in self.entries_of(gang).items():
            if not self._goes_away(uid, found):
                staying[uid] = found
        return PresentMembers(staying, self.count_ended(gang), self._began_ns(staying))

    def present_without(self, seats: Container[str]) -> Callable[[str], PresentMembers]:
        """The same function as `present_members`, as if nothing held these seats."""

        def find_present(gang: str) -> PresentMembers:
            found = self.present_members(gang)
            staying = {uid: seat for uid, seat in found.entered.items() if uid not in seats}
            return found._replace(entered=staying)

        return find_present

    def has_begun(self, member: Pod) -> bool:
        """Whether the member may be released.

        True if as many members have or had cards as start together, or one of them was released
        before.
        """
        lacking = member.gang_minimum - self.count_ended(member.gang)
        for uid, found in self.entries_of(member.gang).items():
            if not self._goes_away(uid, found):
                lacking -= 1
                pod = self._pods.get(uid)
                if lacking <= 0 or (pod is not None and not pod.gated):
                    return True
        return lacking <= 0

    def _began_ns(self, members: Mapping[str, Sequence[Entry]]) -> int:
        """Return the creation time of the oldest member; 0 if there is none."""
        instants = []
        for uid, found in members.items():
            # A seat without a pod has the instant from which it is held; 0 means unknown.
            began_ns = self._pods[uid].created_ns if uid in self._pods else found[0].held_ns
            if began_ns:
                instants.append(began_ns)
        return min(instants, default=0)

    def _goes_away(self, uid: str, found: Sequence[Entry]) -> bool:
        pod = self._pods.get(uid)
        # A deleted pod with a handover keeps its seat for the replacement: its gang stays complete.
        leaves = pod is not None and pod.deleting and uid not in self._handover
        return leaves or any(entry.state is EntryState.DRAINING for entry in found)

    def entries_of(self, gang: str) -> Mapping[str, Sequence[Entry]]:
        """By member, the entries of the gang, those of leaving members included."""
        return self._entries.get(gang, {})

    def count_ended(self, gang: str) -> int:
        """How many members of the gang have ended."""
        return len(self._over.get(gang, ()))

    def __contains__(self, gang: object) -> bool:
        """Whether something of the gang stands in a ledger."""
        return gang in self._entries

    @property
    def begun_gangs(self) -> AbstractSet[str]:
        """Gangs with an entry in a ledger, or with a member that has ended."""
        with_ended = {gang for gang, over in self._over.items() if over}
        return self._entries.keys() | with_ended

    def gangs_with_kept_seats(self) -> list[str]:
        """Gangs with a seat kept for a member that does not exist yet."""
        return list(self._kept)


def ledger_entries(node: GpuNode | None) -> tuple[Entry, ...]:
    """The ledger's entries; none if there is no ledger."""
    return node.entries if node else ()


def ledger_uids(node: GpuNode | None) -> set[str]:
    """Uids of pods and future members with entries in the ledger."""
    return {entry.uid for entry in ledger_entries(node)}


def unaccounted_uids(node: GpuNode | None) -> frozenset[str]:
    """Pods whose containers hold cards of the node without an entry: which cards is unknown."""
    return frozenset(use.uid for use in node.unaccounted_uses) if node else frozenset()


def changed_entries(
    before: Iterable[Entry], now: Iterable[Entry]
) -> tuple[list[Entry], list[Entry]]:
    """Entries that left a ledger and entries that came, of every pod whose entries have changed."""
    had = _by_uid(before)
    has = _by_uid(now)
    gone = []
    for uid, its in had.items():
        if has.get(uid) != its:
            gone.extend(its)
    come = []
    for uid, its in has.items():
        if had.get(uid) != its:
            come.extend(its)
    return gone, come


def _by_uid(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.uid].append(entry)
    return found


def put_or_remove(into: dict[str, T], name: str, value: T | None) -> None:
    """Store the value under the name; None removes it."""
    if value is None:
        into.pop(name, None)
    else:
        into[name] = value
