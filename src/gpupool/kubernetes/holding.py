"""How long seats of a gang are kept that nobody sits on. Time comes in, names of gangs go out; it writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupool.kubernetes.gangs import away, expected
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.returning import closed

HALF_SECONDS = 60.0
"""A gang whose seats are there in part only (a writer died half-way) has so long to come together."""
AWAY_SECONDS = 60.0
"""The seat of a member that went is kept so long while others of the gang are there."""
MISSING_SECONDS = 300.0
"""The seat of a member that was never made is kept so long after all others of the gang became ready: a controller that
makes one pod after the other has made the next one by then. Before that, loading a model may take any time."""
EMPTY_SECONDS = 10.0
"""And all its seats once nobody is: a controller that makes a whole gang anew has begun with it by then."""


class Holding:
    """`seconds` is a monotonic clock; a new leader begins to count anew."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, str], float] = {}

    def given_up(self, pool: Pool) -> frozenset[str]:
        """Gangs whose unreleased seats go now, and single seats of members that do not exist."""
        now = self._seconds()
        states = {(one, state) for name in pool.gangs() for one, state in _states(pool, name)}
        self._since = {key: self._since.get(key, now) for key in states}
        late = (one for (one, state), since in self._since.items() if now - since >= _PATIENCE[state])
        return closed(pool).union(late)

    def next_look(self) -> float | None:
        """Seconds until one of them is given up; None where none is looked at."""
        now = self._seconds()
        return min((_PATIENCE[state] - (now - since) for (_, state), since in self._since.items()), default=None)


_PATIENCE = {"half": HALF_SECONDS, "empty": EMPTY_SECONDS, "away": AWAY_SECONDS, "missing": MISSING_SECONDS}


def _states(pool: Pool, name: str) -> Iterator[tuple[str, str]]:
    """The gang, `half` where fewer have seats than start together, `empty` where all are seats of nobody; and seats of
    members that are `away` while others are there, or `missing` though all who are there are ready."""
    members, waiting = pool.members.present(name).entered, pool.queue.gang(name)
    if waiting and len(members) < waiting[0].gang_minimum and not any(_released(pool, uid) for uid in members):
        yield name, "half"
    if not waiting and all(expected(uid) for uid in pool.members.of(name)):
        yield name, "empty"
    else:
        yield from ((uid, "away") for uid in members if away(uid))
        if not waiting and all(_is_ready(pool, uid) for uid in members if not expected(uid)):
            yield from ((uid, "missing") for uid in members if expected(uid) and not away(uid))


def _is_ready(pool: Pool, uid: str) -> bool:
    pod = pool.pods.get(uid)
    return pod is not None and pod.ready


def _released(pool: Pool, uid: str) -> bool:
    pod = pool.pods.get(uid)
    return pod is not None and not pod.gated
