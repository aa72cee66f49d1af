"""A pool's life in this process: open the state, start the rooms, listen, start the agent, say ready, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from gpupool.agent.loop import Agent
from gpupool.allocations import quiet_moves
from gpupool.allocations.coming import READY
from gpupool.allocations.overdue import LOOK_SECONDS
from gpupool.base.anew import RESTART_SIGNAL, begin_anew_as_told
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, Internal
from gpupool.base.room import is_full, no_room
from gpupool.base.silence import busy
from gpupool.base.supervised import register, supervised_task
from gpupool.fleet.tables import nodes
from gpupool.host import standby
from gpupool.host.callers import per_caller
from gpupool.host.cards import NO_CARDS, Cards, find_cards
from gpupool.host.front import Front
from gpupool.host.guarding import guard_files
from gpupool.host.opening import Opened, open_pool
from gpupool.host.options import Options
from gpupool.host.startup import listeners_of, marker_for
from gpupool.host.state import Marker, StateDir
from gpupool.host.warm import Warm, is_passing
from gpupool.scheduling import kernel
from gpupool.server.app import create_app
from gpupool.server.certificates import certificate_check
from gpupool.server.config import ServerConfig, Services
from gpupool.server.connections import ConnectionLimits, Connections, allow_descriptors
from gpupool.server.listeners import Bound, Listener, UnixListener

logger = logging.getLogger("gpupool")


@dataclass
class Readiness:
    """What the pool has come to: told once on the descriptor that `gpupool up` waits at."""

    fd: int | None
    agent_ready: bool = False
    again: bool = False
    """It was told to begin anew once it has stopped."""

    def tell(self, message: dict[str, object]) -> None:
        if self.fd is not None:
            with contextlib.suppress(BrokenPipeError):  # whoever started us has gone; the pool has not
                os.write(self.fd, json.dumps(message).encode() + b"\n")
            os.close(self.fd)
            self.fd = None

    def fail(self, error: GpupoolError) -> None:
        self.tell({"error": {"code": error.code, "message": error.message, "hint": error.hint}})


def run(options: Options) -> int:
    """Run a pool until it is told to stop; the exit status. What went wrong is told on the ready descriptor."""
    readiness = Readiness(options.ready_fd)
    state = StateDir(options.state_dir)
    with contextlib.suppress(ImportError):  # gpupool-native is an older one: NumPy decides the same
        from gpupool_native import kernel_path

        kernel.adopt(kernel_path())
    try:
        asyncio.run(_run(options, state, readiness))
    except GpupoolError as error:
        return _refused(error, state, readiness)
    except Exception as error:
        if isinstance(error, OSError) and is_full(error) and not readiness.agent_ready:
            return _refused(no_room(str(state.paths.root)), state, readiness)
        if readiness.agent_ready:
            logger.exception("the server failed")
            register.end_process("server")
        readiness.fail(Internal(f"the pool could not start: {error}", hint=f"see {state.paths.server_log}"))
        raise
    finally:
        state.close()
    if readiness.again:
        begin_anew_as_told()
    return 0


def _refused(error: GpupoolError, state: StateDir, readiness: Readiness) -> int:
    """Say why the pool does not start, or ends; a new one that has not begun leaves nothing. The exit status."""
    if readiness.fd is None or _stderr_is(state.paths.server_log):  # else `gpupool up` shows it on the same stderr
        logger.error("%s", error)
    state.abandon()
    readiness.fail(error)
    return error.exit_code


def _stop_and_begin_anew(stop: asyncio.Event, readiness: Readiness) -> None:
    readiness.again = True
    stop.set()


def _stderr_is(file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(2), os.stat(file))
    except OSError:
        return False


async def _run(options: Options, state: StateDir, readiness: Readiness) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(RESTART_SIGNAL, partial(_stop_and_begin_anew, stop, readiness))
    known = state.open()
    marker = marker_for(known, options)
    standby.check_allowed(marker)
    marker = standby.of_stored_pool(marker)
    cards = NO_CARDS if marker.standby else find_cards(marker, state.paths)
    listeners = listeners_of(state.paths, marker)
    _write_marker(state, known, marker)
    limits = ConnectionLimits.within(allow_descriptors(), per_caller(os.environ))
    front = Front(listeners, Connections(limits))
    try:
        opened = await _lead(state, marker, front, stop, readiness)
        if opened is None:
            return
        try:
            await _live(opened, cards, front, state, marker, options, stop, readiness)
        finally:
            services = opened.services
            services.allocations.close()
            if opened.keeper is not None:
                await asyncio.to_thread(opened.keeper.close)
            services.store.close()
    finally:
        await front.close()


async def _lead(
    state: StateDir, marker: Marker, front: Front, stop: asyncio.Event, readiness: Readiness
) -> Opened | None:
    """The opened pool, once this server may lead; None where it was told to stop before."""
    if not marker.standby or marker.store is None:
        return await asyncio.to_thread(open_pool, state, marker)

    def waits(bound: Sequence[Bound], view: standby.View) -> None:
        leader = None if view.leader is None else view.leader.address
        listening = [one.address for one in bound]
        readiness.tell({"ready": True, "standby": True, "pid": os.getpid(), "listening": listening, "leader": leader})

    lookout, warm = standby.Lookout(marker.store), Warm(state, marker)
    try:
        while True:
            await standby.stand_by(lookout, front, stop, waits, warm.keep)
            if stop.is_set():
                return None
            try:
                return await asyncio.to_thread(warm.open)
            except GpupoolError as error:
                if not is_passing(error):
                    raise
                logger.warning("the pool was not taken over, this server stands by: %s", error.message)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), standby.ASK_SECONDS)
    finally:
        warm.close()
        lookout.close()


def _write_marker(state: StateDir, known: Marker | None, marker: Marker) -> None:
    """Write how the pool starts. One that starts as before starts on a full disk too: to stop its jobs."""
    try:
        state.write(marker)
    except OSError as error:
        if not is_full(error) or known is None or replace(known, pid=marker.pid) != marker:
            raise
        logger.warning("the disk is full: the pool starts as before, and %s keeps its old pid", state.paths.marker)


def _marked(state: StateDir, marker: Marker, services: Services) -> Marker:
    """The marker of a pool that has begun, written; on PostgreSQL with the id of the pool that is there."""
    pool_id = marker.pool_id if marker.store is None else services.store.pool_id
    begun = replace(marker, begun=True, pool_id=pool_id)
    if begun != marker:
        state.write(begun)
    return begun


async def _live(
    opened: Opened,
    cards: Cards,
    front: Front,
    state: StateDir,
    marker: Marker,
    options: Options,
    stop: asyncio.Event,
    readiness: Readiness,
) -> None:
    services = opened.services
    config = ServerConfig(
        state_dir=str(state.paths.root),
        listeners=tuple(_place(one) for one in front.listeners),
        started_ns=wall_ns(),
        ready=lambda: readiness.agent_ready,
        per_caller=per_caller(os.environ),
    )
    services.checks.add("connections", front.connections.check)
    if marker.tls_cert is not None:
        services.checks.add("certificate", certificate_check(Path(marker.tls_cert), wall_ns))
    stood_by = front.listening
    bound = await front.show(create_app(config, services))
    opened.phases.mark("application")
    what = "the pool is open" if opened.keeper is None else "this server leads"
    logger.info("%s after %s", what, opened.phases.text())
    marker = _marked(state, marker, services)
    agent = cards.agent(marker.pool_id, state.paths) if options.agent and not marker.standby else None
    if agent is not None:
        services.checks.add("logs", agent.logs_check)
    tasks: set[asyncio.Task[None]] = set()

    try:
        _event(services, "pool.started", marker.pool_id)
        tasks.add(asyncio.create_task(_come_up(services, agent, bound, cards, readiness, stop)))
        tasks.add(asyncio.create_task(supervised_task("node-silence", partial(_watch_silence, services))))
        tasks.add(asyncio.create_task(supervised_task("overdue-jobs", partial(_resolve_overdue, services))))
        if services.allocations.quiet_moves.budget is not None:
            tasks.add(asyncio.create_task(supervised_task("quiet-moves", partial(_defragment, services))))
        guard = partial(guard_files, services.store, state.paths.root, stop)
        tasks.add(asyncio.create_task(supervised_task("store-files", guard)))
        if not stood_by:  # a standby has done it while it waited
            gc.collect()
            gc.freeze()
        await stop.wait()
    finally:
        await front.close()
        for task in tasks:
            task.cancel()
        if agent is not None:
            await asyncio.to_thread(_end_agent, agent)
        _event(services, "pool.stopped", marker.pool_id)


def _end_agent(agent: Agent) -> None:
    agent.close()
    agent.join()


def _place(listener: Listener) -> str:
    return str(listener.path) if isinstance(listener, UnixListener) else f"{listener.host}:{listener.port}"


def _event(services: Services, kind: str, subject: str) -> None:
    with services.store.write(freeing=True) as write:
        write.event(kind, subject, data={"pid": os.getpid()})


async def _come_up(
    services: Services,
    agent: Agent | None,
    bound: Sequence[Bound],
    cards: Cards,
    readiness: Readiness,
    stop: asyncio.Event,
) -> None:
    """Start the agent; once every node has told what became of its jobs, say so, with where the pool listens."""
    try:
        if agent is not None:
            await asyncio.to_thread(agent.start)
    except GpupoolError as error:
        readiness.fail(error)
        stop.set()
        return
    except Exception as error:
        readiness.fail(Internal(f"the agent could not start: {error}", hint="see the server's log"))
        stop.set()
        raise
    expected = set(cards.node_names) if agent is not None else set()
    with services.store.hub.ticket("fleet", "events") as ticket:
        while not await asyncio.to_thread(_all_ready, services, expected):
            await ticket.wait(60)
    readiness.agent_ready = True
    services.store.hub.publish({READY})
    readiness.tell(
        {"ready": True, "pid": os.getpid(), "listening": [one.address for one in bound], "cards": cards.summary}
    )


def _all_ready(services: Services, expected: set[str]) -> bool:
    with services.store.read() as connection:
        rows = connection.execute(sa.select(nodes.c.name, nodes.c.ready)).all()
    return expected <= {row.name for row in rows if row.ready}


async def _watch_silence(services: Services) -> None:
    """Notice nodes that stopped talking, with one timer for the next that could."""
    while True:
        with busy():
            seconds = await asyncio.to_thread(services.fleet.check_silence)
        await asyncio.sleep(seconds)


async def _defragment(services: Services) -> None:
    """Bring whole nodes together at quiet times, within the pool's budget."""
    while True:
        await asyncio.sleep(quiet_moves.LOOK_SECONDS)
        with busy(quiet_moves.BUSY_SECONDS):
            await asyncio.to_thread(services.allocations.quiet_moves.look)


async def _resolve_overdue(services: Services) -> None:
    """Stop or ask again for jobs that make no progress, and settle gangs that a failure left."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with busy():
            await asyncio.to_thread(services.allocations.overdue.resolve)
            await asyncio.to_thread(services.allocations.unsettled.settle)
