"""How long seats of a gang are kept that nobody sits on. Time comes in, names of gangs go out; it writes nothing."""

from __future__ import annotations

from collections.abc import Callable

from gpupool.kubernetes.gangs import expected
from gpupool.kubernetes.pool import Pool

HALF_SECONDS = 60.0
"""A gang whose seats are there in part only (a writer died half-way) has so long to come together."""
EMPTY_SECONDS = 300.0
"""Seats for members that do not exist are kept so long where the gang has no pod at all."""


class Holding:
    """`seconds` is a monotonic clock; a new leader begins to count anew."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, str], float] = {}

    def given_up(self, pool: Pool) -> frozenset[str]:
        """Gangs whose unreleased seats go now."""
        now = self._seconds()
        states = {(name, state) for name in pool.gangs() if (state := _state(pool, name))}
        self._since = {key: self._since.get(key, now) for key in states}
        return frozenset(name for (name, state), since in self._since.items() if now - since >= _PATIENCE[state])

    def next_look(self) -> float | None:
        """Seconds until one of them is given up; None where none is looked at."""
        now = self._seconds()
        return min((_PATIENCE[state] - (now - since) for (_, state), since in self._since.items()), default=None)


_PATIENCE = {"half": HALF_SECONDS, "empty": EMPTY_SECONDS}


def _state(pool: Pool, name: str) -> str:
    """`half` where fewer have seats than start together, `empty` where all are seats of nobody, else nothing."""
    members, waiting = pool.present(name).entered, pool.queue.gang(name)
    if waiting and len(members) < waiting[0].gang_minimum and not any(_released(pool, uid) for uid in members):
        return "half"
    return "empty" if not waiting and all(expected(uid) for uid in members) else ""


def _released(pool: Pool, uid: str) -> bool:
    pod = pool.pods.get(uid)
    return pod is not None and not pod.gated
