"""Who of each gang stands in ledgers, and how many of it have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from gpupool.kubernetes.gangs import expected
from gpupool.kubernetes.heirs import Heirs
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.queue import Present

T = TypeVar("T")


class Members:
    """One leader's. `pods` and `heirs` are read alone: they are the pool's."""

    def __init__(self, pods: Mapping[str, Pod], heirs: Heirs) -> None:
        self._pods, self._heirs = pods, heirs
        self._entries: defaultdict[str, dict[str, list[Entry]]] = defaultdict(dict)
        """By gang and member, what stands in ledgers."""
        self._kept: defaultdict[str, set[str]] = defaultdict(set)
        """By gang the seats of members that do not exist yet."""
        self._over: defaultdict[str, set[str]] = defaultdict(set)
        """By gang its pods that are over and still there."""

    def note(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """These entries left a ledger, those stand there now."""
        for entry in gone:
            self._forget(entry)
            self._kept[entry.gang].discard(entry.uid)
        for entry in come:
            if entry.gang:
                self._entries[entry.gang].setdefault(entry.uid, []).append(entry)
            if expected(entry.uid):
                self._kept[entry.gang].add(entry.uid)
        for gang in {entry.gang for entry in gone}:
            if not self._entries[gang]:
                del self._entries[gang]
            if not self._kept[gang]:
                del self._kept[gang]

    def _forget(self, entry: Entry) -> None:
        """It left one ledger; two controllers may have written the same member into two."""
        members = self._entries[entry.gang]
        left = [one for one in members.get(entry.uid, ()) if one != entry]
        if left:
            members[entry.uid] = left
        else:
            members.pop(entry.uid, None)

    def note_over(self, gang: str, uid: str, *, gone: bool) -> None:
        """A pod of the gang is over, or is gone altogether."""
        (self._over[gang].discard if gone else self._over[gang].add)(uid)

    def present(self, gang: str) -> Present:
        """Who of the gang has cards and stays, and how many have ended."""
        staying = {uid: found for uid, found in self.of(gang).items() if not self._goes_away(uid, found)}
        return Present(staying, self.over(gang), self._began_ns(staying))

    def present_without(self, seats: Container[str]) -> Callable[[str], Present]:
        """The same as if nobody had these seats."""

        def present(gang: str) -> Present:
            found = self.present(gang)
            return found._replace(entered={uid: seat for uid, seat in found.entered.items() if uid not in seats})

        return present

    def has_begun(self, member: Pod) -> bool:
        """Whether as many of its gang have cards or had them as start together, or one of them was let go before."""
        lacking = member.gang_minimum - self.over(member.gang)
        for uid, found in self.of(member.gang).items():
            if not self._goes_away(uid, found):
                lacking -= 1
                pod = self._pods.get(uid)
                if lacking <= 0 or (pod is not None and not pod.gated):
                    return True
        return lacking <= 0

    def _began_ns(self, members: Mapping[str, Sequence[Entry]]) -> int:
        """When the first of them was created: by its pod, or where that is not there, when its seat was taken."""
        each = (self._pods[uid].created_ns if uid in self._pods else found[0].held_ns for uid, found in members.items())
        return min(filter(None, each), default=0)

    def _goes_away(self, uid: str, found: Sequence[Entry]) -> bool:
        pod = self._pods.get(uid)
        leaves = pod is not None and pod.deleting and uid not in self._heirs
        return leaves or any(entry.state is EntryState.DRAINING for entry in found)

    def of(self, gang: str) -> Mapping[str, Sequence[Entry]]:
        """Everybody of the gang that stands in a ledger, also those who leave."""
        return self._entries.get(gang, {})

    def over(self, gang: str) -> int:
        """How many of the gang have ended."""
        return len(self._over.get(gang, ()))

    def __contains__(self, gang: object) -> bool:
        """Whether something of the gang stands in a ledger."""
        return gang in self._entries

    @property
    def begun(self) -> AbstractSet[str]:
        """Gangs of which something stands in a ledger, or a pod has ended."""
        return self._entries.keys() | {gang for gang, over in self._over.items() if over}

    def with_kept_seats(self) -> list[str]:
        """Gangs of which a seat is kept for a member that does not exist yet."""
        return list(self._kept)


def entries(node: GpuNode | None) -> tuple[Entry, ...]:
    """What stands in a ledger, if there is one."""
    return node.entries if node else ()


def uids(node: GpuNode | None) -> set[str]:
    """Of pods, and members to come, that stand there."""
    return {entry.uid for entry in entries(node)}


def unaccounted(node: GpuNode | None) -> frozenset[str]:
    """Pods whose containers hold cards of the node without an entry: which cards is not known."""
    return frozenset(use.uid for use in node.unaccounted) if node else frozenset()


def changed(before: Iterable[Entry], now: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """What left a ledger and what came: entries of pods of which any is otherwise. Those of others need no look."""
    had, has = _by_uid(before), _by_uid(now)
    gone = [entry for uid, its in had.items() if has.get(uid) != its for entry in its]
    come = [entry for uid, its in has.items() if had.get(uid) != its for entry in its]
    return gone, come


def _by_uid(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.uid].append(entry)
    return found


def put(into: dict[str, T], name: str, value: T | None) -> None:
    """Under that name; None: not any more."""
    if value is None:
        into.pop(name, None)
    else:
        into[name] = value
