"""A pool's server on a real Unix socket, in this process, and agents for it: in this process or in
one of their own.

The server is the whole app over SQLite, spoken to as an agent and a client speak to it. It can go
away and come back on the same database, as after a kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpupool.agent.config import AgentConfig
from gpupool.agent.loop import Agent
from gpupool.agent.supervisor.cgroups import detect_cgroups
from gpupool.agent.supervisor.client import JobState, inspect_job
from gpupool.agent.supervisor.pool_cgroups import remove_pool
from gpupool.base.client_settings import ClientSettings
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.server.app import create_app
from gpupool.server.compose import compose_services
from gpupool.server.config import ServerConfig, ServiceSet
from gpupool.server.http.listeners import UnixListener
from gpupool.server.http.serving import serve_listeners
from gpupool.store.database import connect, open_store, sqlite_url
from tests.support.empty_databases import prepare_copy
from tests.support.processes import die_with_owner, stop_surely
from tests.support.supervised import until

POOL_ID = "p-agenttest"
GIB = 1 << 30


class PoolServer:
    """The server of one state directory. `begin`, `end`, `begin` again."""

    def __init__(self, state_dir: Path) -> None:
        self.paths = PoolPaths(state_dir)
        self.settings = ClientSettings(state_dir=str(state_dir))
        self.services: ServiceSet | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        engine = connect(sqlite_url(self.paths.database))
        prepare_copy(engine, time.time_ns(), POOL_ID)
        store = open_store(engine, f"test-{time.monotonic_ns()}")
        self.services = compose_services(store, owner_uid=os.getuid())
        self.services.tenancy.bootstrap()
        self.services.fleet.await_agents()
        self.services.allocations.start()
        app = create_app(ServerConfig(state_dir=str(self.paths.root)), self.services)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(app, ready), name="test-server")
        self._thread.start()
        assert ready.wait(20)

    def _run(self, app: Any, ready: threading.Event) -> None:
        async def main() -> None:
            self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
            listener = UnixListener(self.paths.socket, 0o600)
            await serve_listeners(app, [listener], stop=self._stop, on_ready=lambda _: ready.set())

        asyncio.run(main())

    def end(self) -> None:
        if self._thread is None:
            return
        assert self._loop is not None
        assert self._stop is not None
        assert self.services is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self.services.allocations.close()
        self.services.store.engine.dispose()
        self._thread = None
        remove_pool(detect_cgroups(), POOL_ID)

    def api(self) -> Api:
        return Api(self.settings)

    def submit(self, script: str, **options: Any) -> dict[str, Any]:
        """A job of a shell script, with 0.1 of a card and 1 GiB."""
        argv = options.pop("argv", ["/bin/sh", "-c", script])
        environment = {"PATH": "/usr/bin:/bin", **options.pop("env", {})}
        body = {
            "shape": {"gpu_milli": 100, "memory_bytes": GIB},
            "launch": {"argv": argv, "cwd": options.pop("cwd", "/"), "env": environment},
            **options,
        }
        with self.api() as api:
            made: dict[str, Any] = api.request("POST", "jobs", body)["first"]
        return made

    def job(self, job: str) -> dict[str, Any]:
        with self.api() as api:
            found: dict[str, Any] = api.request("GET", f"jobs/{job}")
        return found

    def stop(self, job: str, grace: int = 0) -> None:
        with self.api() as api:
            api.request("POST", f"jobs/{job}/stop", {"grace_seconds": grace})

    def resize(self, job: str, **size: int) -> dict[str, Any]:
        with self.api() as api:
            told: dict[str, Any] = api.request("POST", f"jobs/{job}/resize", size)
        return told

    def share_of(self, job: str) -> dict[str, Any]:
        """What the job reads about its share."""
        allocation = json.loads((self.job_dir(job) / "allocation.json").read_text())["allocation"]
        path = self.paths.agent / "prepared" / allocation / "share" / "share.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def until_state(self, job: str, *states: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.job(job)
            return found if found["state"] in states else None

        found = until(look, f"job {job} being {' or '.join(states)}")
        assert found is not None
        return found

    def node_is_ready(self, name: str) -> bool:
        assert self.services is not None
        page = self.services.fleet.list_nodes()
        return any(node.name == name and node.ready for node in page.items)

    def job_dir(self, job: str) -> Path:
        return self.paths.jobs / job

    def leftovers(self) -> list[str]:
        """Everything on the node that a pool without live jobs must not have."""
        jobs = [path for path in self.paths.jobs.iterdir() if path.is_dir()]
        names = ("allocation.json", "spec", "sock")
        unfinished = [
            f"{path.name}/{name}" for path in jobs for name in names if (path / name).exists()
        ]
        running = [
            f"{path.name} runs" for path in jobs if inspect_job(path).state is JobState.RUNNING
        ]
        prepared = self.paths.agent / "prepared"
        notes = (
            [f"prepared/{path.name}" for path in prepared.iterdir()] if prepared.is_dir() else []
        )
        return unfinished + running + notes

    def held_shares(self) -> int:
        assert self.services is not None
        admin = self.services.tenancy.bootstrap()
        return sum(device.shares for device in self.services.fleet.list_devices(admin).items)


def agent_here(
    server: PoolServer, *, sim: str = "2xL40S", fault: Callable[[str], None] | None = None
) -> Agent:
    """An agent in this process, not started."""
    config = AgentConfig(
        name="host",
        pool_id=POOL_ID,
        owner_uid=os.getuid(),
        owner_gid=os.getgid(),
        sample_seconds=0.1,
        heartbeat_seconds=2,
    )
    probes = {machine.name: SimulatedProbe(machine) for machine in parse_sim(sim, POOL_ID)}
    return Agent(config, server.paths, server.api, probes, fault=fault or (lambda _step: None))


class AgentProcess:
    """`python -m gpupool.agent`, which a test kills or which kills itself at a step."""

    def __init__(self, server: PoolServer, fault: str | None = None) -> None:
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")
        }
        if fault is not None:
            environ |= {"GPUPOOL_FAULT": fault, "GPUPOOL_FAULTS_ALLOWED": "1"}
        command = [
            sys.executable,
            "-m",
            "gpupool.agent",
            "--state-dir",
            str(server.paths.root),
            "--name",
            "host",
        ]
        self._log = open(server.paths.root / "agent.log", "ab")  # noqa: SIM115  closed in `end`
        self.process = subprocess.Popen(
            [*command, "--sim", "2xL40S", "--pool-id", POOL_ID],
            env=environ,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=die_with_owner(signal.SIGKILL),
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)

    def await_death(self) -> int:
        """The signal that ended it."""
        return -self.process.wait(60)

    def end(self) -> None:
        if self.process.poll() is None:
            stop_surely(self.process, [signal.SIGTERM])
        self._log.close()
