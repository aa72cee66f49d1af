"""Where requests go: the healthy replicas of each service, and the requests under way.

On the event loop alone; nothing is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.serving.traffic import ServiceLabels

#: Seconds over which requests under way are averaged.
WINDOW_SECONDS: Final = 10.0
#: Seconds of requests that make a measure.
LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True)
class ReplicaRoute:
    """A healthy replica."""

    number: int
    job: str
    agent: str
    port: int


@dataclass(frozen=True)
class ServiceRoute:
    """A service as requests find it."""

    id: int
    public_id: str
    name: str
    tenant_id: int
    labels: ServiceLabels
    wait_seconds: int
    replicas: tuple[ReplicaRoute, ...]


class RequestLoad:
    """Requests under way, of services and of replicas."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._services: dict[int, _ServiceLoad] = {}
        self._replicas = Counter[tuple[int, int]]()
        self._waiting = Counter[int]()

    def begin(self, service: int) -> None:
        self._find(service).step(self._clock(), 1)

    def end(self, service: int) -> None:
        self._find(service).step(self._clock(), -1)

    def begin_wait(self, service: int) -> None:
        self._waiting[service] += 1

    def end_wait(self, service: int) -> None:
        # A service that is removed meanwhile is forgotten.
        self._waiting[service] = max(0, self._waiting[service] - 1)

    def begin_replica(self, service: int, number: int) -> None:
        self._replicas[service, number] += 1

    def end_replica(self, service: int, number: int) -> None:
        self._replicas[service, number] -= 1
        if not self._replicas[service, number]:
            del self._replicas[service, number]

    def count(self, service: int) -> int:
        """Return the requests of a service that are under way or wait."""
        found = self._services.get(service)
        return 0 if found is None else found.count

    def count_waiting(self, service: int) -> int:
        return self._waiting[service]

    def count_replica(self, service: int, number: int) -> int:
        return self._replicas.get((service, number), 0)

    def read_mean(self, service: int) -> float | None:
        """Return the mean of the requests under way in the last seconds; None: too little is known."""
        return self._find(service).read_mean(self._clock())

    def forget_others(self, known: Collection[int]) -> None:
        """Forget services that are no more."""
        for service in set(self._services) - set(known):
            del self._services[service]
            self._waiting.pop(service, None)

    def _find(self, service: int) -> _ServiceLoad:
        found = self._services.get(service)
        if found is None:
            found = self._services[service] = _ServiceLoad(self._clock())
        return found


class _ServiceLoad:
    """The integral of the requests under way over time."""

    def __init__(self, now: float) -> None:
        self.count = 0
        self._sum = 0.0
        self._at = now
        #: Instants with the integral until then; the first is older than the window, or the begin.
        self._points = deque([(now, 0.0)])

    def step(self, now: float, by: int) -> None:
        self._advance(now)
        # A service that is removed meanwhile is forgotten.
        self.count = max(0, self.count + by)

    def read_mean(self, now: float) -> float | None:
        self._advance(now)
        points = self._points
        points.append((now, self._sum))
        while len(points) > 2 and points[1][0] <= now - WINDOW_SECONDS:
            points.popleft()
        since, base = points[0]
        return None if now - since < LEAST_SECONDS else (self._sum - base) / (now - since)

    def _advance(self, now: float) -> None:
        self._sum += self.count * (now - self._at)
        self._at = now


class RouteBook:
    """The services and their healthy replicas, as the controller has published them last."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[int, str], ServiceRoute] = {}
        self._by_id: dict[str, ServiceRoute] = {}
        self._news = asyncio.Event()
        self._turn = 0
        #: Asks the controller to look now.
        self.ask_look: Callable[[], None] = _ask_nothing

    def publish(self, routes: Sequence[ServiceRoute]) -> None:
        """Replace what requests find; wakes those that wait."""
        self._by_name = {(one.tenant_id, one.name): one for one in routes}
        self._by_id = {one.public_id: one for one in routes}
        news = self._news
        self._news = asyncio.Event()
        news.set()

    def find(self, tenant_id: int, name: str, *, sees_all: bool) -> ServiceRoute | None:
        """Find a service by its name in a tenant, or by its id."""
        found = self._by_name.get((tenant_id, name)) or self._by_id.get(name)
        is_visible = found is not None and (sees_all or found.tenant_id == tenant_id)
        return found if is_visible else None

    async def wait_news(self, seconds: float) -> None:
        """Wait until something is published, at most so long."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), seconds)

    def choose(
        self, route: ServiceRoute, load: RequestLoad, others: Collection[int] = ()
    ) -> ReplicaRoute | None:
        """Choose the replica with the fewest requests, in turn among equals; None: there is none.

        Args:
            others: numbers of replicas that were tried.
        """
        usable = [one for one in route.replicas if one.number not in others]
        if not usable:
            return None
        self._turn += 1
        start = self._turn % len(usable)
        turned = usable[start:] + usable[:start]
        return min(turned, key=lambda one: load.count_replica(route.id, one.number))


def _ask_nothing() -> None:
    """Do nothing: no controller runs here."""
