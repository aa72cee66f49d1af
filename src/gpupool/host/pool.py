"""Runs a pool: opens the state, starts services and agent, listens, reports ready, stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from gpupool.agent.loop import Agent
from gpupool.allocations.routes.unknown_cards import READY
from gpupool.base.anew import RESTART_SIGNAL, begin_anew_as_told
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, InternalError
from gpupool.base.lost_work import watch_loop
from gpupool.base.room import is_full, no_room
from gpupool.base.supervision import register, supervised_task
from gpupool.fleet.tables import nodes
from gpupool.host.cards import NO_CARDS, PoolCards, find_cards
from gpupool.host.console_listener import ConsoleListener
from gpupool.host.job_pages import make_job_pages
from gpupool.host.leadership import standby
from gpupool.host.leadership.front import ListenerFront
from gpupool.host.leadership.store_opening import OpenedPool, open_pool
from gpupool.host.leadership.takeover import WarmPool, is_passing
from gpupool.host.periodic_tasks import list_tasks
from gpupool.host.readiness import PoolReadiness
from gpupool.host.settings.connection_limits import read_caller_limit
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.host.state.file_guard import guard_files
from gpupool.host.state.startup import choose_marker, list_listeners
from gpupool.scheduling import adopt_native_library
from gpupool.server.app import create_app
from gpupool.server.config import ServerConfig, ServiceSet
from gpupool.server.http.certificates import certificate_check
from gpupool.server.http.connections import ConnectionLimits, OpenConnections, allow_descriptors
from gpupool.server.http.listeners import BoundSocket, Listener, UnixListener

logger = logging.getLogger("gpupool")


def run_pool(options: HostOptions) -> int:
    """Run a pool until a signal stops it; returns the exit status.

    A failed start is reported on the ready descriptor.
    """
    readiness = PoolReadiness(options.ready_fd)
    state = StateDir(options.state_dir)
    # Without the library, or with an older one, NumPy decides the same.
    with contextlib.suppress(ImportError):
        from gpupool_native import kernel_path

        adopt_native_library(kernel_path())
    try:
        asyncio.run(_serve_pool(options, state, readiness))
    except GpupoolError as error:
        return _report_refusal(error, state, readiness)
    except Exception as error:
        if isinstance(error, OSError) and is_full(error) and not readiness.agent_ready:
            return _report_refusal(no_room(str(state.paths.root)), state, readiness)
        if readiness.agent_ready:
            logger.exception("the server failed")
            register.end_process("server")
        readiness.report_failure(
            InternalError(
                f"the pool could not start: {error}", hint=f"see {state.paths.server_log}"
            )
        )
        raise
    finally:
        state.close()
    if readiness.again:
        begin_anew_as_told()
    return 0


def _report_refusal(error: GpupoolError, state: StateDir, readiness: PoolReadiness) -> int:
    """Report why the pool does not start, or ends; returns the exit status."""
    # Otherwise `gpupool up` shows the error on the same stderr.
    if readiness.fd is None or _stderr_is(state.paths.server_log):
        logger.error("%s", error)
    # A new pool that has not started leaves no files, so the next start is a first one again.
    state.abandon_new_pool()
    readiness.report_failure(error)
    return error.exit_code


def _stop_and_begin_anew(stop: asyncio.Event, readiness: PoolReadiness) -> None:
    readiness.again = True
    stop.set()


def _stderr_is(file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(2), os.stat(file))
    except OSError:
        return False


async def _serve_pool(options: HostOptions, state: StateDir, readiness: PoolReadiness) -> None:
    loop = asyncio.get_running_loop()
    watch_loop(loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(RESTART_SIGNAL, partial(_stop_and_begin_anew, stop, readiness))
    known = state.open()
    marker = choose_marker(known, options)
    standby.check_allowed(marker)
    marker = standby.adopt_stored_pool(marker)
    cards = NO_CARDS if marker.standby else find_cards(marker, state.paths)
    listeners = list_listeners(state.paths, marker)
    _write_marker(state, known, marker)
    limits = ConnectionLimits.within(allow_descriptors(), read_caller_limit(os.environ))
    front = ListenerFront(listeners, OpenConnections(limits))
    try:
        opened = await _await_leadership(state, marker, front, stop, readiness)
        if opened is None:
            return
        try:
            await _run_services(opened, cards, front, state, marker, options, stop, readiness)
        finally:
            services = opened.services
            services.allocations.close()
            if opened.keeper is not None:
                await asyncio.to_thread(opened.keeper.close)
            services.store.close()
    finally:
        await front.close()


async def _await_leadership(
    state: StateDir,
    marker: PoolMarker,
    front: ListenerFront,
    stop: asyncio.Event,
    readiness: PoolReadiness,
) -> OpenedPool | None:
    """Return the opened pool once this server may lead; None if it was stopped before."""
    if not marker.standby or marker.store is None:
        return await asyncio.to_thread(open_pool, state, marker)

    def waits(bound: Sequence[BoundSocket], view: standby.LeaderView) -> None:
        leader = None if view.leader is None else view.leader.address
        listening = [one.address for one in bound]
        readiness.report_state(
            {
                "ready": True,
                "standby": True,
                "pid": os.getpid(),
                "listening": listening,
                "leader": leader,
            }
        )

    lookout = standby.LeaderLookout(marker.store)
    warm = WarmPool(state, marker)
    try:
        while True:
            await standby.stand_by(lookout, front, stop, waits, warm.stay_ready)
            if stop.is_set():
                return None
            try:
                return await asyncio.to_thread(warm.take_over)
            except GpupoolError as error:
                if not is_passing(error):
                    raise
                logger.warning(
                    "the pool was not taken over, this server stands by: %s", error.message
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), standby.ASK_SECONDS)
    finally:
        warm.close()
        lookout.close()


def _write_marker(state: StateDir, known: PoolMarker | None, marker: PoolMarker) -> None:
    """Write how the pool starts."""
    try:
        state.write_marker(marker)
    except OSError as error:
        # A pool that starts as before starts on a full disk too, so that its jobs can be stopped.
        if not is_full(error) or known is None or replace(known, pid=marker.pid) != marker:
            raise
        logger.warning(
            "the disk is full: the pool starts as before, and %s keeps its old pid",
            state.paths.marker,
        )


def _write_begun_marker(state: StateDir, marker: PoolMarker, services: ServiceSet) -> PoolMarker:
    """Write and return the marker of a started pool, with the id of the pool in the database."""
    pool_id = marker.pool_id if marker.store is None else services.store.pool_id
    begun = replace(marker, begun=True, pool_id=pool_id)
    if begun != marker:
        state.write_marker(begun)
    return begun


async def _run_services(
    opened: OpenedPool,
    cards: PoolCards,
    front: ListenerFront,
    state: StateDir,
    marker: PoolMarker,
    options: HostOptions,
    stop: asyncio.Event,
    readiness: PoolReadiness,
) -> None:
    services = opened.services
    console = ConsoleListener(front)
    config = ServerConfig(
        state_dir=str(state.paths.root),
        listeners=tuple(_format_listener(one) for one in front.listeners),
        started_ns=wall_ns(),
        ready=lambda: readiness.agent_ready,
        per_caller=read_caller_limit(os.environ),
        console=console,
    )
    services.tenancy.sessions.end_of_console()
    services.checks.add("connections", front.connections.check)
    if marker.tls_cert is not None:
        services.checks.add("certificate", certificate_check(Path(marker.tls_cert), wall_ns))
    pages = make_job_pages(services, marker, state.paths.secrets, front.connections)
    stood_by = front.listening
    bound = await front.show_app(create_app(config, services))
    opened.phases.mark_phase("application")
    what = "the pool is open" if opened.keeper is None else "this server leads"
    logger.info("%s after %s", what, opened.phases.format_text())
    marker = _write_begun_marker(state, marker, services)
    agent = (
        cards.create_agent(marker.pool_id, state.paths)
        if options.agent and not marker.standby
        else None
    )
    if agent is not None:
        services.checks.add("logs", agent.check_log_quota)
    tasks: set[asyncio.Task[None]] = set()
    services.network_reconciler.start()
    services.notification_sender.start()
    services.audit.begin()
    try:
        _record_event(services, "pool.started", marker.pool_id)
        await pages.resume()
        tasks.add(asyncio.create_task(_start_agent(services, agent, bound, cards, readiness, stop)))
        for name, body in list_tasks(services):
            tasks.add(asyncio.create_task(supervised_task(name, body)))
        guard = partial(guard_files, services.store, state.paths.root, stop)
        tasks.add(asyncio.create_task(supervised_task("store-files", guard)))
        # A standby has done it while it waited (`takeover`).
        if not stood_by:
            gc.collect()
            gc.freeze()
        await stop.wait()
    finally:
        await console.close()
        await pages.close()
        await front.close()
        for task in tasks:
            task.cancel()
        services.network_reconciler.close()
        services.notification_sender.close()
        if agent is not None:
            await asyncio.to_thread(_end_agent, agent)
        _record_event(services, "pool.stopped", marker.pool_id)
        services.audit.close()


def _end_agent(agent: Agent) -> None:
    agent.close()
    agent.join()


def _format_listener(listener: Listener) -> str:
    return (
        str(listener.path)
        if isinstance(listener, UnixListener)
        else f"{listener.host}:{listener.port}"
    )


def _record_event(services: ServiceSet, kind: str, subject: str) -> None:
    with services.store.write(freeing=True) as write:
        write.event(kind, subject, data={"pid": os.getpid()})


async def _start_agent(
    services: ServiceSet,
    agent: Agent | None,
    bound: Sequence[BoundSocket],
    cards: PoolCards,
    readiness: PoolReadiness,
    stop: asyncio.Event,
) -> None:
    """Start the agent; report ready once every node has reported its jobs."""
    try:
        if agent is not None:
            await asyncio.to_thread(agent.start)
    except GpupoolError as error:
        readiness.report_failure(error)
        stop.set()
        return
    except Exception as error:
        readiness.report_failure(
            InternalError(f"the agent could not start: {error}", hint="see the server's log")
        )
        stop.set()
        raise
    expected = set(cards.node_names) if agent is not None else set()
    with services.store.notifier.subscribe("fleet", "events") as ticket:
        while not await asyncio.to_thread(_all_ready, services, expected):
            await ticket.wait_for_commit(60)
    readiness.agent_ready = True
    services.store.notifier.publish_topics({READY})
    readiness.report_state(
        {
            "ready": True,
            "pid": os.getpid(),
            "listening": [one.address for one in bound],
            "cards": cards.summary,
        }
    )


def _all_ready(services: ServiceSet, expected: set[str]) -> bool:
    with services.store.read() as connection:
        rows = connection.execute(sa.select(nodes.c.name, nodes.c.ready)).all()
    return expected <= {row.name for row in rows if row.ready}
