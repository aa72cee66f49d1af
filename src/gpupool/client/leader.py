"""Which of a pool's servers to speak to: the order of the candidates, and the search for the
leader.

Must not know requests. A pool of several servers has one leader; the others answer GP-5035
(docs/decisions/0023).
"""

from __future__ import annotations

import json
import time

from gpupool.base.errors import GpupoolError, PoolNotRunning
from gpupool.client.connection import BrokenConnectionError, PoolConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpupool.client.endpoints import PoolEndpoint

#: So long the leader is searched for among several servers: three takeovers.
TAKEOVER_SECONDS = 15.0
#: Between two rounds of the search.
_PAUSE_SECONDS = 0.2
#: So long one server may take to say whether it leads.
_HEALTH_SECONDS = 1.0


class ServerCandidates:
    """The places where a pool may listen, the next one to try first.

    `are_one_pool` tells servers of one pool, of which one leads, from places where different pools
    may be.
    """

    def __init__(self, endpoints: list[PoolEndpoint]) -> None:
        self._endpoints = endpoints
        self.are_one_pool = len(endpoints) > 1 and not endpoints[0].implied

    @property
    def first(self) -> PoolEndpoint:
        return self._endpoints[0]

    def __len__(self) -> int:
        return len(self._endpoints)

    def __str__(self) -> str:
        """Every server of the pool, as GPUPOOL_URL takes them."""
        return ",".join(
            sorted(map(str, self._endpoints)) if self.are_one_pool else [str(self.first)]
        )

    def copy(self) -> ServerCandidates:
        twin = ServerCandidates(list(self._endpoints))
        twin.are_one_pool = self.are_one_pool
        return twin

    def turn(self) -> None:
        """Put the first one last."""
        self._endpoints.append(self._endpoints.pop(0))

    def connect(self) -> PoolConnection:
        """Connect to the first candidate that listens, and put it first.

        Raises:
            PoolNotRunning: no candidate listens.
        """
        missing: GpupoolError | None = None
        for candidate in list(self._endpoints):
            try:
                connection = PoolConnection(candidate)
            except PoolNotRunning as error:
                missing = missing or error
                continue
            self._choose(candidate)
            if self.are_one_pool:
                connection.on_silence = self._check_leader
            return connection
        assert missing is not None
        if len(self._endpoints) > 1 and not self.are_one_pool:
            raise PoolNotRunning("no pool is running here", hint="start one: gpupool up")
        raise missing

    def _choose(self, candidate: PoolEndpoint) -> None:
        """The other servers of one pool stay candidates; the other implied places are of no more
        interest."""
        if self.are_one_pool:
            self._endpoints.remove(candidate)
            self._endpoints.insert(0, candidate)
        else:
            self._endpoints = [candidate]

    def _check_leader(self) -> None:
        """Break the connection if another server leads: the silent one may be stopped or cut
        off."""
        for other in self._endpoints[1:]:
            if _is_leader(other):
                self._choose(other)
                raise BrokenConnectionError(f"{other} leads now")


class LeaderSearch:
    """The attempts of one request to reach the leader, for as long as a takeover may take."""

    def __init__(self, candidates: ServerCandidates, *, follow: bool) -> None:
        self._candidates = candidates
        self._follow = follow
        self._attempts = 0
        self._until: float | None = None

    def next(self, error: GpupoolError) -> None:
        """Put the next server first, with a pause after each round.

        Raises:
            GpupoolError: `error`, if there is no other server, the caller does not follow, or the time is over.
        """
        if not self._candidates.are_one_pool:
            raise error
        self._until = self._until or time.monotonic() + TAKEOVER_SECONDS
        self._candidates.turn()
        if not self._follow or time.monotonic() >= self._until:
            raise error
        self._attempts += 1
        if self._attempts % len(self._candidates) == 0 or isinstance(error, PoolNotRunning):
            time.sleep(_PAUSE_SECONDS)


def _is_leader(endpoint: PoolEndpoint) -> bool:
    try:
        connection = PoolConnection(endpoint, _HEALTH_SECONDS)
    except GpupoolError:
        return False
    try:
        connection.settimeout(_HEALTH_SECONDS)
        connection.send(["GET", "/healthz"], b"")
        _, _, data = connection.answer("GET")
        return b'"leader"' in data and json.loads(data).get("role") == "leader"
    except (BrokenConnectionError, OSError, ValueError):
        return False
    finally:
        connection.close()
