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
from typing import Any

import sqlalchemy as sa

from gpupool.agent.loop import Agent
from gpupool.allocations.overdue import LOOK_SECONDS
from gpupool.base.clock import wall_ns
from gpupool.base.errors import GpupoolError, Internal, PoolHeldElsewhere, WrongState
from gpupool.base.ids import new_id
from gpupool.base.settings import SYSTEM_SOCKET, SYSTEM_STATE_DIR, PoolPaths
from gpupool.base.supervised import register, supervised_task
from gpupool.fleet.tables import nodes
from gpupool.host import standby
from gpupool.host.callers import per_caller
from gpupool.host.cards import NO_CARDS, Cards, find_cards
from gpupool.host.guarding import guard_files
from gpupool.host.leading import LeaseKeeper
from gpupool.host.opening import open_pool
from gpupool.host.options import Options
from gpupool.host.state import LAYOUT, Marker, StateDir
from gpupool.scheduling import kernel
from gpupool.server.app import create_app
from gpupool.server.config import ServerConfig, Services
from gpupool.server.connections import ConnectionLimits, Connections, allow_descriptors
from gpupool.server.listeners import Bound, Listener, UnixListener, parse_listen
from gpupool.server.serving import serve

logger = logging.getLogger("gpupool")


@dataclass
class Readiness:
    """What the pool has come to: told once on the descriptor that `gpupool up` waits at."""

    fd: int | None
    agent_ready: bool = False

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
        if readiness.fd is None or _stderr_is(state.paths.server_log):  # else `gpupool up` shows it on the same stderr
            logger.error("%s", error)
        readiness.fail(error)
        return error.exit_code
    except Exception as error:
        if readiness.agent_ready:
            logger.exception("the server failed")
            register.end_process("server")
        readiness.fail(Internal(f"the pool could not start: {error}", hint=f"see {state.paths.server_log}"))
        raise
    finally:
        state.close()
    return 0


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
    marker = marker_for(state.open(), options)
    standby.check_allowed(marker)
    marker = standby.of_stored_pool(marker)
    cards = NO_CARDS if marker.standby else find_cards(marker, state.paths)
    listeners = _listeners(state.paths, marker)
    state.write(marker)
    opened = await _lead(state, marker, listeners, stop, readiness)
    if opened is None:
        return
    services, keeper = opened
    known = standby.of_stored_pool(replace(marker, begun=True))
    if known != marker:
        marker = known
        state.write(marker)
    try:
        await _live(services, cards, listeners, state, marker, options, stop, readiness)
    finally:
        services.allocations.close()
        if keeper is not None:
            await asyncio.to_thread(keeper.close)
        services.store.close()


async def _lead(
    state: StateDir, marker: Marker, listeners: Sequence[Listener], stop: asyncio.Event, readiness: Readiness
) -> tuple[Services, LeaseKeeper | None] | None:
    """The opened pool, once this server may lead; None where it was told to stop before."""

    def waits(bound: Sequence[Bound], view: standby.View) -> None:
        leader = None if view.leader is None else view.leader.address
        listening = [one.address for one in bound]
        readiness.tell({"ready": True, "standby": True, "pid": os.getpid(), "listening": listening, "leader": leader})

    while True:
        if marker.standby and marker.store is not None:
            await standby.stand_by(marker.store, listeners, stop, waits)
            if stop.is_set():
                return None
        try:
            return await asyncio.to_thread(open_pool, state, marker)
        except PoolHeldElsewhere:
            if not marker.standby:
                raise  # another server was quicker: a standby goes on waiting


def marker_for(known: Marker | None, options: Options) -> Marker:
    """How this pool starts: as before, unless the options say otherwise."""
    if known is None:
        known = Marker(pool_id=new_id("p"), sim=options.sim)
    elif options.sim is not None and options.sim != known.sim:
        had = f"simulated cards {known.sim}" if known.sim else "this machine's real cards"
        raise WrongState(
            f"{options.state_dir} holds a pool of {had}; it cannot become one of --sim {options.sim}",
            hint="leave out --sim, choose another --state-dir, or remove it with  gpupool down --purge",
        )
    return replace(
        known,
        layout=LAYOUT,
        node_name=options.node_name or known.node_name,
        store=options.store or known.store,
        fence_reaction=options.fence_reaction or known.fence_reaction,
        **_doors(known, options),
        labels=options.label or known.labels,
        job_limits=options.job_limit or known.job_limits,
        standby=options.standby or known.standby,
        pid=os.getpid(),
    )


def _doors(known: Marker, options: Options) -> dict[str, Any]:
    """Where a start listens and behind what: as before unless said, and never weaker unless that is said aloud.

    A certificate goes on also for new listeners; leave to speak plain HTTP holds for the listeners it was given for.
    """
    cert, key = known.tls_cert, known.tls_key
    if options.tls_cert or options.tls_key:
        cert = str(options.tls_cert) if options.tls_cert else None
        key = str(options.tls_key) if options.tls_key else None
    elif options.insecure_http:
        cert = key = None
    return {
        "listeners": options.listen or known.listeners,
        "tls_cert": cert,
        "tls_key": key,
        "insecure_http": options.insecure_http or (known.insecure_http and not options.listen),
    }


def _listeners(paths: PoolPaths, marker: Marker) -> list[Listener]:
    mode = 0o666 if os.getuid() == 0 else 0o600
    listeners: list[Listener] = [UnixListener(paths.socket, mode)]
    if os.getuid() == 0 and paths.root == SYSTEM_STATE_DIR:
        SYSTEM_SOCKET.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        listeners.append(UnixListener(SYSTEM_SOCKET, mode))
    cert = Path(marker.tls_cert) if marker.tls_cert else None
    key = Path(marker.tls_key) if marker.tls_key else None
    for text in marker.listeners:
        listeners.append(parse_listen(text, cert=cert, key=key, insecure_http=marker.insecure_http))
    return listeners


async def _live(
    services: Services,
    cards: Cards,
    listeners: Sequence[Listener],
    state: StateDir,
    marker: Marker,
    options: Options,
    stop: asyncio.Event,
    readiness: Readiness,
) -> None:
    config = ServerConfig(
        state_dir=str(state.paths.root),
        listeners=tuple(_place(one) for one in listeners),
        started_ns=wall_ns(),
        ready=lambda: readiness.agent_ready,
        per_caller=per_caller(os.environ),
    )
    app = create_app(config, services)
    agent = cards.agent(marker.pool_id, state.paths) if options.agent and not marker.standby else None
    tasks: set[asyncio.Task[None]] = set()

    def listening(bound: Sequence[Bound]) -> None:
        _event(services, "pool.started", marker.pool_id)
        tasks.add(asyncio.create_task(_come_up(services, agent, bound, cards, readiness, stop)))
        tasks.add(asyncio.create_task(supervised_task("node-silence", partial(_watch_silence, services))))
        tasks.add(asyncio.create_task(supervised_task("overdue-jobs", partial(_resolve_overdue, services))))
        guard = partial(guard_files, services.store, state.paths.root, stop)
        tasks.add(asyncio.create_task(supervised_task("store-files", guard)))
        gc.collect()
        gc.freeze()

    try:
        limits = ConnectionLimits.within(allow_descriptors(), config.per_caller)
        connections = Connections(limits)
        services.checks.add("connections", connections.check)
        await serve(app, listeners, stop=stop, on_ready=listening, connections=connections)
    finally:
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
        await asyncio.sleep(await asyncio.to_thread(services.fleet.check_silence))


async def _resolve_overdue(services: Services) -> None:
    """Stop or ask again for jobs that make no progress."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(services.allocations.overdue.resolve)
