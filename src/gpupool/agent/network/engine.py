"""The engine on this machine: its daemons started, watched, and ended without a trace.

Each daemon runs under a supervisor of its own, so it survives the agent; the next agent finds it
again. A daemon that ended is started again: the others wait for it, and what was forwarded goes on.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import (
    UPLINK_BRIDGE,
    EngineFiles,
    find_datapath,
    find_missing_programs,
    list_create_commands,
    list_database_servers,
    list_workers,
    locate_engine,
    make_switch_settings,
)
from gpupool.agent.network.lines import LineSpeakers
from gpupool.agent.network.namespaces import JobNamespaces, create_namespace, remove_namespace
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.uplink import INNER, Uplink
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.durable import make_directory_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.wire.lines import LineReport
from gpupool.wire.networks import NetworkEngineReport, NetworkEngineWork

#: What the helpers' records name as their user.
_USER: Final = "engine"
#: Seconds in which a daemon has to come up, and between two looks at running ones.
_START_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class NetworkEngine:
    """The daemons of one machine, and the thread that starts and watches them."""

    def __init__(
        self, agent_dir: Path, owner_uid: int, report: Callable[[NetworkEngineReport], None]
    ) -> None:
        """Make the engine; nothing runs yet.

        Args:
            agent_dir: the agent's state directory.
            report: queues a report for the server; never blocks.
        """
        root = agent_dir / "network"
        self._files = locate_engine(root)
        self._root = root
        self._helpers = _make_helpers(root, owner_uid)
        self._lines = LineSpeakers(self._files, root, self._helpers)
        self._report = report
        self._work: NetworkEngineWork | None = None
        self._last: NetworkEngineReport | None = None
        self._news = threading.Condition()
        self._is_closing = False
        self._thread = SupervisedThread("network-engine", self._run)

    def apply_work(self, work: NetworkEngineWork | None) -> None:
        """Begin what the server wants, if there is news. Never blocks."""
        if work is None:
            return
        with self._news:
            self._work = work
            self._last = None
            self._news.notify()
        # A thread starts once; with later work it goes on.
        if not self._thread.is_alive():
            self._thread.start()

    def close(self) -> None:
        """Stop watching; the daemons go on. Idempotent."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.stop()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            with mark_busy(6 * _START_SECONDS):
                report = self._stop() if work.want == "stop" else self._start(work)
                self._tell(work, report)
            self._thread.mark_well()

    def _take_work(self) -> NetworkEngineWork | None:
        """Wait for the next look; None when closing."""
        with self._news:
            is_watching = self._work is not None and self._work.want == "run"
            if self._last is not None:
                self._news.wait(_LOOK_SECONDS if is_watching else None)
            return None if self._is_closing else self._work

    def _tell(self, work: NetworkEngineWork, report: NetworkEngineReport) -> None:
        with self._news:
            is_news = report != self._last
            # Work that came meanwhile is carried out whole, as if nothing had been done.
            self._last = report if self._work is work else None
        if is_news:
            self._report(report)

    def _start(self, work: NetworkEngineWork) -> NetworkEngineReport:
        """Start what does not run, and say how it is. Idempotent."""
        done = self._last
        if done is not None and done.state == "ready":
            return self._watch(done, work)
        try:
            self._check_machine()
            self._create_databases()
            uplink, reason = self._start_daemons(work)
        except NetworkingUnavailable as error:
            hint = f"; {error.hint}" if error.hint else ""
            return NetworkEngineReport(state="failed", reason=f"{error.message}{hint}"[:400])
        except (SupervisorError, OSError) as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        northbound = self._files.remote("northbound")
        return NetworkEngineReport(
            state="ready", reason=reason[:400], northbound=northbound, uplink=uplink
        )

    def _check_machine(self) -> None:
        missing = find_missing_programs()
        if missing:
            packages = " ".join(sorted(set(missing.values())))
            raise NetworkingUnavailable(
                f"this machine lacks {', '.join(sorted(missing))}",
                hint=f"apt-get install --no-install-recommends {packages}",
            )

    def _create_databases(self) -> None:
        make_directory_durably(self._files.data, mode=0o700)
        self._files.run.mkdir(mode=0o700, exist_ok=True)
        create_namespace(self._files.namespace)
        for file, command in list_create_commands(self._files).items():
            if file.exists():
                continue
            # Made under another name first: a database that was cut short would never open.
            temporary = file.with_suffix(".tmp")
            temporary.unlink(missing_ok=True)
            arguments = [str(temporary) if part == str(file) else part for part in command]
            subprocess.run(arguments, check=True, capture_output=True, timeout=_START_SECONDS)
            temporary.rename(file)

    def _watch(self, done: NetworkEngineReport, work: NetworkEngineWork) -> NetworkEngineReport:
        """Start daemons that have ended; their settings are in their databases."""
        try:
            helpers = (*list_database_servers(self._files), *list_workers(self._files))
            self._helpers.start(_USER, helpers)
            lines = self._follow_lines(work)
        except (NetworkingUnavailable, SupervisorError, OSError) as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        return done.model_copy(update={"lines": lines})

    def _follow_lines(self, work: NetworkEngineWork) -> list[LineReport]:
        # Only of an engine that was reported: the server writes the lines' rows from then on.
        if not work.lines or not work.line_interface:
            return []
        ports = open_ports(self._files)
        try:
            return self._lines.follow(ports, work)
        finally:
            ports.close()

    def _start_daemons(self, work: NetworkEngineWork) -> tuple[str, str]:
        """Start the daemons; return the prefix of the uplink, and what gateways or lines wait for."""
        self._helpers.start(_USER, list_database_servers(self._files))
        ports = open_ports(self._files)
        try:
            ports.write_settings(make_switch_settings(self._files, find_datapath()))
            self._helpers.start(_USER, list_workers(self._files))
            if not ports.wait_for_bridge(_START_SECONDS):
                raise NetworkingUnavailable(
                    f"the switch did not make its bridge within {_START_SECONDS:g} s",
                    hint=f"see the logs below {self._root / 'daemons'}",
                )
            uplink, reason = (
                self._set_up_uplink(ports, work) if work.uplink else self._remove_uplink(ports)
            )
            waits = (reason, self._lines.prepare(ports, work))
            return uplink, "; ".join(filter(None, waits))
        finally:
            ports.close()

    def _set_up_uplink(self, ports: SwitchPorts, work: NetworkEngineWork) -> tuple[str, str]:
        try:
            prefix = Uplink(self._files, self._root).set_up(work.forwards)
        except NetworkingUnavailable as error:
            # Networks without a gateway do not need it.
            return "", f"gateways wait: {error.message}; {error.hint}"
        ports.add_bridge(UPLINK_BRIDGE, INNER, find_datapath())
        return str(prefix), ""

    def _remove_uplink(self, ports: SwitchPorts) -> tuple[str, str]:
        ports.remove_bridge(UPLINK_BRIDGE)
        Uplink(self._files, self._root).remove()
        return "", ""

    def _stop(self) -> NetworkEngineReport:
        try:
            end_engine(self._root, self._helpers)
        except SupervisorError as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        return NetworkEngineReport(state="stopped")


def remove_engine(agent_dir: Path) -> None:
    """End the engine of an agent that does not run, and remove all of it. Idempotent.

    Raises SupervisorError where a daemon does not end.
    """
    root = agent_dir / "network"
    if root.exists():
        end_engine(root, _make_helpers(root, os.geteuid()))


def end_engine(root: Path, helpers: HelperProcesses) -> None:
    """End the daemons and remove all that they and the jobs' cables left. Idempotent."""
    files = locate_engine(root)
    namespaces = JobNamespaces(files)
    for port in namespaces.list_ports():
        namespaces.remove(port)
    lines = LineSpeakers(files, root, helpers)
    lines.end()
    # Also of speakers whose namespace is gone.
    helpers.release_unknown({_USER})
    helpers.release(_USER)
    lines.release_interface()
    Uplink(files, root).remove()
    # With the interfaces that a switch in user space leaves when it ends.
    remove_namespace(files.namespace)
    shutil.rmtree(files.run, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)


def _make_helpers(root: Path, owner_uid: int) -> HelperProcesses:
    return HelperProcesses(root / "daemons", owner_uid, lambda _name: ())


def open_ports(files: EngineFiles) -> SwitchPorts:
    """Open the ports of the switch. Blocks until its database answers, for some seconds.

    Raises NetworkingUnavailable.
    """
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return SwitchPorts(files.remote("switch"))
        except NetworkingUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
