"""Decides how long unused seats of a gang are kept. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.gang_seat_retention import unusable_seats
from gpupool.kubernetes.resources.gang import is_departed_member, is_future_member

#: Seconds that a gang with only a part of its seats (a writer died half-way) has to complete.
HALF_SECONDS = 60.0
#: Seconds that the seat of a departed member is kept while other members exist.
AWAY_SECONDS = 60.0
#: Seconds that the seat of a member that was never created is kept after all others became ready. A
#: controller that creates one pod after the other has created the next one by then; before that,
#: loading a model may take any time.
MISSING_SECONDS = 300.0
#: Seconds that all seats are kept once no member exists: a controller that creates a whole gang
#: anew has begun by then.
EMPTY_SECONDS = 10.0


class GangTimeouts:
    """Times since when seats are unused; a new leader counts from zero.

    `seconds` is a monotonic clock, in seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, str], float] = {}

    def expired_seats(self, cluster: ClusterCache) -> frozenset[str]:
        """Gangs whose unreleased seats are freed now, and single seats of members that do not
        exist."""
        now = self._seconds()
        states: set[tuple[str, str]] = set()
        for name in cluster.gang_seats.list_partial_gangs():
            states.update(_list_states(cluster, name))
        # A state that ended is dropped, so a gang that falls apart again has its full time again.
        self._since = {key: self._since.get(key, now) for key in states}
        expired = set(unusable_seats(cluster))
        for (name, state), since in self._since.items():
            if now - since >= _PATIENCE[state]:
                expired.add(name)
        return frozenset(expired)

    def next_look(self) -> float | None:
        """Seconds until the next seat expires; None if no seat is unused."""
        now = self._seconds()
        waits = []
        for (_, state), since in self._since.items():
            waits.append(_PATIENCE[state] - (now - since))
        return min(waits, default=None)


_PATIENCE = {
    "half": HALF_SECONDS,
    "empty": EMPTY_SECONDS,
    "away": AWAY_SECONDS,
    "missing": MISSING_SECONDS,
}


def _list_states(cluster: ClusterCache, name: str) -> Iterator[tuple[str, str]]:
    """Yield unused seats with the reason why each is unused.

    `half` and `empty` are of the whole gang: fewer members have seats than start together, or every
    seat is of a member that does not exist. `away` and `missing` are of one seat: its member has
    departed, or was never created though all others are ready.
    """
    members = cluster.members.present_members(name).entered
    waiting = cluster.queue.gang_pods(name)
    # Members that were released run: freeing the seats of the others would not free theirs.
    is_half = bool(waiting) and len(members) < waiting[0].gang_minimum
    if is_half and not any(_is_released(cluster, uid) for uid in members):
        yield name, "half"
    if not waiting and all(map(is_future_member, cluster.members.entries_of(name))):
        yield name, "empty"
        return
    is_complete = not waiting
    never_created = []
    for uid in members:
        if is_departed_member(uid):
            yield uid, "away"
        elif is_future_member(uid):
            never_created.append(uid)
        if not is_future_member(uid) and not _is_ready(cluster, uid):
            is_complete = False
    if is_complete:
        for uid in never_created:
            yield uid, "missing"


def _is_ready(cluster: ClusterCache, uid: str) -> bool:
    pod = cluster.pods.get(uid)
    return pod is not None and pod.ready


def _is_released(cluster: ClusterCache, uid: str) -> bool:
    pod = cluster.pods.get(uid)
    return pod is not None and not pod.gated
