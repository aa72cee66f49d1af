"""Keeps services at the number of replicas that their load needs.

One task of the leading server looks every second while there are services: it checks replicas,
measures the load, lets `steps` change what is due, and publishes the healthy replicas for requests.
What it keeps in memory (failed checks, what earlier loads needed) a restart begins anew, which only
makes it slower to end replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable
from typing import Final

from gpupool.base.silence import mark_busy
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.service import MeteringService
from gpupool.serving.answers import OpenAnswers
from gpupool.serving.checks import check_replica
from gpupool.serving.replicas import DRAINING, READY, STARTING
from gpupool.serving.routing import ReplicaRoute, RequestLoad, RouteBook, ServiceRoute
from gpupool.serving.rows import TOPIC, Row
from gpupool.serving.scaling import LoadMeasure, Recommendation, trim_history
from gpupool.serving.sights import (
    ReplicaHealth,
    ServiceFacts,
    ServiceSight,
    is_drain_over,
    make_rule,
)
from gpupool.serving.sockets import OpenSockets
from gpupool.serving.steps import ServiceSteps
from gpupool.serving.traffic import ServiceLabels, ServiceTraffic
from gpupool.store.database import Store
from gpupool.workspaces.streams import StreamBroker

#: Seconds between two looks while there are services.
LOOK_SECONDS: Final = 1.0
#: Seconds between two looks without any, which a new one cuts short.
IDLE_SECONDS: Final = 60.0
#: Seconds between two looks at least.
LEAST_SECONDS: Final = 0.1
#: Seconds between checks of a replica that is not healthy yet.
START_CHECK_SECONDS: Final = 1.0
#: A sample of a job's use that is older says nothing of its load.
SAMPLE_NS: Final = 60 * NANOS_PER_SECOND
#: Checks and submissions of a look may take that long before the task counts as silent.
BUSY_SECONDS: Final = 300.0
#: After the first look an agent may still wait for signs of life of the server before
#: (`agent.relay.control`: 45 s), and then connects within 5 s.
AGENT_SECONDS: Final = 60.0
#: Checks at a time.
_AT_ONCE: Final = 16


class _ReplicaWatch:
    """The checks of one replica."""

    def __init__(self) -> None:
        self.health: ReplicaHealth | None = None
        self.next_at = 0.0

    def note(self, fault: str) -> None:
        failures = 0 if not fault else 1 + (0 if self.health is None else self.health.failures)
        self.health = ReplicaHealth(fault, failures)


class ServiceController:
    """Looks after services. On the event loop; `look` may be called without `run`."""

    def __init__(
        self, store: Store, steps: ServiceSteps, broker: StreamBroker, metering: MeteringService
    ) -> None:
        self._store = store
        self._steps = steps
        self._broker = broker
        self._metering = metering
        self.load = RequestLoad()
        self.traffic = ServiceTraffic()
        self.answers = OpenAnswers()
        self.sockets = OpenSockets()
        self.book = RouteBook()
        self.book.ask_look = self._ask_look
        self._watches: dict[tuple[int, int], _ReplicaWatch] = {}
        self._histories: dict[int, list[Recommendation]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began: float | None = None
        self._wake = asyncio.Event()
        self._checking = asyncio.Semaphore(_AT_ONCE)
        store.notifier.add_listener(self._listen)

    async def run(self) -> None:
        """Look again and again, and at once when a service has changed."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            with mark_busy(BUSY_SECONDS):
                has_services = await self.look()
            seconds = LOOK_SECONDS if has_services else IDLE_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), seconds)
            # What asks for looks in a loop gets ten a second.
            await asyncio.sleep(LEAST_SECONDS)

    async def look(self) -> bool:
        """Check, measure and change once. Returns whether there are services."""
        if self._began is None:
            self._began = asyncio.get_running_loop().time()
        sights = await asyncio.to_thread(self._steps.read)
        checks = list[asyncio.Task[None]]()
        for sight in sights:
            for replica in sight.list_states(STARTING, READY):
                if replica.job_state == "running" and replica.job in sight.agents:
                    checks.append(asyncio.ensure_future(self._check(sight, replica)))
        await asyncio.gather(*checks)
        for sight in sights:
            await self._apply(sight)
        if sights:
            sights = await asyncio.to_thread(self._steps.read)
        self._forget(sights)
        routes = [_make_route(sight) for sight in sights]
        self.book.publish(routes)
        self.traffic.forget_others([route.labels for route in routes])
        await self.answers.check_callers()
        await self.sockets.check_callers()
        return bool(sights)

    def read_load(self, sight: ServiceSight) -> float | None:
        """Return the load by the service's measure; None: it is not known."""
        return self._measure(sight).total

    async def _check(self, sight: ServiceSight, replica: Row) -> None:
        watch = self._watches.setdefault((sight.service.id, replica.number), _ReplicaWatch())
        loop = asyncio.get_running_loop()
        if loop.time() < watch.next_at:
            return
        rule = sight.rule
        route = _make_replica_route(sight, replica)
        if replica.state == READY and self._may_still_come(route.agent, loop.time()):
            return
        async with self._checking:
            watch.note(await check_replica(self._broker, route, rule.check_path))
        pause = START_CHECK_SECONDS if replica.state == STARTING else float(rule.check_seconds)
        watch.next_at = loop.time() + pause

    def _may_still_come(self, agent: str, now: float) -> bool:
        """Whether an agent is not connected because this server has only begun."""
        assert self._began is not None
        is_new = now - self._began < AGENT_SECONDS
        return is_new and agent not in self._broker.list_agents()

    async def _apply(self, sight: ServiceSight) -> None:
        service = sight.service
        now_ns = self._store.clock.now_ns()
        first = [Recommendation(now_ns, service.desired)]
        history = self._histories.setdefault(service.id, first)
        health = dict[int, ReplicaHealth]()
        requests = dict[int, int]()
        for one in sight.replicas:
            watch = self._watches.get((service.id, one.number))
            if watch is not None and watch.health is not None:
                health[one.number] = watch.health
            requests[one.number] = self.load.count_replica(service.id, one.number)
            if one.state == DRAINING and is_drain_over(sight.rule, one, now_ns):
                # Before its job is stopped, so that callers get a close frame.
                self.sockets.end_replica(service.id, one.number)
        facts = ServiceFacts(
            self._measure(sight),
            self.load.count_waiting(service.id),
            tuple(history),
            health,
            requests,
        )
        needed = await asyncio.to_thread(self._steps.apply, sight, facts)
        if needed is not None:
            history.append(Recommendation(now_ns, needed))
        self._histories[service.id] = trim_history(make_rule(sight.rule), history, now_ns)

    def _measure(self, sight: ServiceSight) -> LoadMeasure:
        service = sight.service
        if sight.rule.measure == "requests":
            return LoadMeasure(self.load.read_mean(service.id), max(1, service.desired))
        uses = list[float]()
        missing = 0
        for one in sight.list_states(READY):
            use = self._metering.compute_use(one.job, one.total_milli, 0)
            is_fresh = use is not None and use.sampled_ns > self._store.clock.now_ns() - SAMPLE_NS
            if use is None or use.share_percent is None or not is_fresh:
                missing += 1
            else:
                uses.append(use.share_percent)
        return LoadMeasure(sum(uses) if uses else None, len(uses), missing)

    def _forget(self, sights: list[ServiceSight]) -> None:
        live = set[tuple[int, int]]()
        for sight in sights:
            for one in sight.list_states(STARTING, READY):
                # What was healthy before its job was sent back to wait is checked anew.
                if one.job_state == "running":
                    live.add((sight.service.id, one.number))
        for key in set(self._watches) - live:
            del self._watches[key]
        known = [sight.service.id for sight in sights]
        for service in set(self._histories) - set(known):
            del self._histories[service]
        self.load.forget_others(known)

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if TOPIC in topics:
            self._ask_look()

    def _ask_look(self) -> None:
        """Look now. Thread-safe."""
        if self._loop is not None:
            # Suppressed: the loop of a pool that stops is closed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)


def _make_route(sight: ServiceSight) -> ServiceRoute:
    service = sight.service
    replicas = list[ReplicaRoute]()
    for one in sight.list_states(READY):
        if one.job_state == "running" and one.job in sight.agents:
            replicas.append(_make_replica_route(sight, one))
    return ServiceRoute(
        service.id,
        service.public_id,
        service.name,
        service.tenant_id,
        ServiceLabels(service.tenant, service.name),
        sight.rule.wait_seconds,
        tuple(replicas),
    )


def _make_replica_route(sight: ServiceSight, replica: Row) -> ReplicaRoute:
    return ReplicaRoute(replica.number, replica.job, sight.agents[replica.job], replica.port)
