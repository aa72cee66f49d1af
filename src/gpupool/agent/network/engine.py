"""The engine on this machine: its daemons started, watched, and ended without a trace.

The centre has the databases; a member's controller connects to them.

Each daemon runs under a supervisor of its own, so it survives the agent; the next agent finds it
again. A daemon that ended is started again: the others wait for it, and what was forwarded goes on.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpupool.agent.config import AgentConfig
from gpupool.agent.network.centre import Centre
from gpupool.agent.network.certificate_files import write_certificate
from gpupool.agent.network.daemons import (
    TUNNEL_BRIDGE,
    UPLINK_BRIDGE,
    find_datapath,
    find_missing_programs,
    list_create_commands,
    list_workers,
    locate_engine,
    make_switch_database,
    make_switch_settings,
    read_version,
)
from gpupool.agent.network.engine_end import ENGINE, end_engine, make_helpers
from gpupool.agent.network.engine_parts import EngineParts
from gpupool.agent.network.lines.speakers import LineSpeakers
from gpupool.agent.network.namespaces import create_namespace
from gpupool.agent.network.port_relay import RELAY_SOCKET
from gpupool.agent.network.switch_ports import SwitchPorts, open_ports
from gpupool.agent.network.tunnel import Tunnel, lay_tunnel
from gpupool.agent.network.tunnel_address import find_source_address
from gpupool.agent.network.uplink import INNER, Uplink
from gpupool.agent.network.verification.verification_thread import VerificationThread
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.durable import make_directory_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.network.ovn.control import is_controller_connected
from gpupool.wire.network.lines import LineReport
from gpupool.wire.network.networks import NetworkEngineReport, NetworkEngineWork

#: Seconds in which a daemon has to come up, and between two looks at running ones.
_START_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
#: Seconds between two looks where there are proxies: as often as they probe their backends.
_PROXY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class NetworkEngine:
    """The daemons of one machine, and the thread that starts and watches them."""

    def __init__(
        self, agent_dir: Path, config: AgentConfig, report: Callable[[NetworkEngineReport], None]
    ) -> None:
        """Make the engine; nothing runs yet.

        Args:
            agent_dir: the agent's state directory.
            report: queues a report for the server; never blocks.
        """
        root = agent_dir / "network"
        self._files = locate_engine(root)
        self._root = root
        self._config = config
        self._helpers = make_helpers(root, config.owner_uid)
        self._parts = EngineParts(self._files, root, config.owner_uid, self._helpers)
        self._centre = Centre(self._files, root, self._helpers)
        self._tunnel = Tunnel(self._files, root)
        self._lines = LineSpeakers(self._files, root, self._helpers)
        self._report = report
        self._work: NetworkEngineWork | None = None
        self._last: NetworkEngineReport | None = None
        #: How the engine was when it had started with the work that it has now.
        self._started: NetworkEngineReport | None = None
        self._news = threading.Condition()
        self._is_closing = False
        self._has_started = False
        self._thread = SupervisedThread("network-engine", self._run)
        self._verification = VerificationThread(self._files, self._wake)

    def apply_work(self, work: NetworkEngineWork | None) -> None:
        """Begin what the server wants, if there is news. Never blocks."""
        if work is None:
            return
        with self._news:
            self._work = work
            self._last = None
            self._started = None
            self._news.notify()
            # A thread starts once; this one watches on until the agent closes.
            if not self._has_started and not self._is_closing:
                self._has_started = True
                self._thread.start()
        self._verification.apply_work(work.verification)

    def close(self) -> None:
        """Stop watching; the daemons go on. Idempotent."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.stop()
        self._parts.close()
        self._verification.close()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        self._parts.join(seconds)
        self._verification.join(seconds)

    def _wake(self) -> None:
        with self._news:
            self._news.notify()

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            with mark_busy(6 * _START_SECONDS):
                report = self._stop() if work.want == "stop" else self._start(work)
            # In every report from then on: one that is in the queue is replaced by the next.
            more = {
                "verification": self._verification.get_report(),
                "relay_socket": str(self._root.parent / RELAY_SOCKET),
            }
            self._tell(work, report.model_copy(update=more))
            self._thread.mark_well()

    def _take_work(self) -> NetworkEngineWork | None:
        """Wait for the next look; None when closing."""
        with self._news:
            is_watching = self._work is not None and self._work.want == "run"
            # Without a report there is work that came during the last step.
            if self._last is not None:
                self._news.wait(self._find_pause() if is_watching else None)
            return None if self._is_closing else self._work

    def _find_pause(self) -> float:
        work = self._work
        return _PROXY_SECONDS if work is not None and work.proxies else _LOOK_SECONDS

    def _tell(self, work: NetworkEngineWork, report: NetworkEngineReport) -> None:
        with self._news:
            is_news = report != self._last
            # News that came meanwhile are still to be done: the report is not about them.
            if self._work is work:
                self._last = report
        if is_news:
            self._report(report)

    def _start(self, work: NetworkEngineWork) -> NetworkEngineReport:
        """Start what does not run, and say how it is. Idempotent."""
        done = self._started
        if done is not None and done.tunnel == self._find_tunnel_address(work):
            return self._parts.apply(work, self._watch(work, done))
        try:
            self._check_machine()
            write_certificate(self._files, work.certificate)
            self._create_databases(work)
            report = self._start_daemons(work)
        except NetworkingUnavailable as error:
            hint = f"; {error.hint}" if error.hint else ""
            return NetworkEngineReport(state="failed", reason=f"{error.message}{hint}"[:400])
        except (SupervisorError, OSError) as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        with self._news:
            # Unless there is other work by now.
            self._started = report if self._work is work else None
        return self._parts.apply(work, report, is_news=True)

    def _check_machine(self) -> None:
        if self._config.owner_uid != 0:
            raise NetworkingUnavailable(
                f"networks need an agent of root; this one runs as uid {self._config.owner_uid}"
            )
        missing = find_missing_programs()
        if missing:
            packages = " ".join(sorted(set(missing.values())))
            raise NetworkingUnavailable(
                f"this machine lacks {', '.join(sorted(missing))}",
                hint=f"apt-get install --no-install-recommends {packages}",
            )

    def _create_databases(self, work: NetworkEngineWork) -> None:
        make_directory_durably(self._files.data, mode=0o700)
        self._files.run.mkdir(mode=0o700, exist_ok=True)
        create_namespace(self._files.namespace)
        is_centre = work.role == "centre"
        for file, command in list_create_commands(self._files, is_centre=is_centre).items():
            if file.exists():
                continue
            # Made under another name first: a database that was cut short would never open.
            temporary = file.with_suffix(".tmp")
            temporary.unlink(missing_ok=True)
            arguments = [str(temporary) if part == str(file) else part for part in command]
            subprocess.run(arguments, check=True, capture_output=True, timeout=_START_SECONDS)
            temporary.rename(file)

    def _watch(self, work: NetworkEngineWork, done: NetworkEngineReport) -> NetworkEngineReport:
        """Start daemons that have ended; their settings are in their databases."""
        try:
            self._start_processes(work)
            self._tunnel.restore()
            lines = self._follow_lines(work)
        except (NetworkingUnavailable, SupervisorError, OSError) as error:
            return done.model_copy(update={"state": "failed", "reason": str(error)[:400]})
        if work.role == "member":
            return done.model_copy(update=self._describe_connection(work))
        return done.model_copy(update={"lines": lines})

    def _start_processes(self, work: NetworkEngineWork) -> None:
        self._helpers.start(ENGINE, (make_switch_database(self._files),))
        if work.role == "centre":
            self._centre.start()
        self._helpers.start(ENGINE, list_workers(self._files))

    def _follow_lines(self, work: NetworkEngineWork) -> list[LineReport]:
        # Only of an engine that was reported: the server writes the lines' rows from then on.
        if not work.lines or not work.line_interface:
            return []
        ports = open_ports(self._files)
        try:
            return self._lines.follow(ports, work)
        finally:
            ports.close()

    def _start_daemons(self, work: NetworkEngineWork) -> NetworkEngineReport:
        """Start the daemons, connect them, and say how they are."""
        address = self._find_tunnel_address(work)
        if work.role == "member":
            self._centre.remove()
        datapath = find_datapath()
        settings = make_switch_settings(
            self._files,
            datapath,
            chassis=work.chassis,
            southbound=work.southbound,
            tunnel=address,
        )
        self._helpers.start(ENGINE, (make_switch_database(self._files),))
        ports = open_ports(self._files)
        try:
            ports.write_settings(settings)
            self._start_processes(work)
            if not ports.wait_for_bridge(_START_SECONDS):
                raise NetworkingUnavailable(
                    f"the switch did not make its bridge within {_START_SECONDS:g} s",
                    hint=f"see the logs below {self._root / 'daemons'}",
                )
            uplink, reason = (
                self._set_up_uplink(ports, work) if work.uplink else self._remove_uplink(ports)
            )
            reason = "; ".join(filter(None, (reason, self._lines.prepare(ports, work))))
            # After the uplink, whose end stops the machine's forwarding as a whole.
            mtu = 0
            if work.certificate is not None:
                mtu = lay_tunnel(self._tunnel, ports, address, work.mtu)
            else:
                ports.remove_bridge(TUNNEL_BRIDGE)
                self._tunnel.remove()
        finally:
            ports.close()
        report = NetworkEngineReport(
            state="ready",
            reason=reason[:400],
            uplink=uplink,
            tunnel=address,
            mtu=mtu,
            datapath=datapath,
            version=read_version(),
        )
        if work.role == "member":
            return self._wait_for_centre(work, report)
        places = {"northbound": self._files.remote("northbound")}
        if address:
            remotes = self._centre.listen(address, work)
            places["northbound_tls"] = remotes["northbound"]
            places["southbound"] = remotes["southbound"]
        else:
            self._centre.close(work)
        return report.model_copy(update=places)

    def _find_tunnel_address(self, work: NetworkEngineWork) -> str:
        """Return the address of tunnels; empty where the pool has one machine."""
        if work.certificate is None:
            return ""
        return self._config.tunnel_address or find_source_address()

    def _wait_for_centre(
        self, work: NetworkEngineWork, report: NetworkEngineReport
    ) -> NetworkEngineReport:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            found = report.model_copy(update=self._describe_connection(work))
            if found.state == "ready" or time.monotonic() >= deadline:
                return found
            time.sleep(0.1)

    def _describe_connection(self, work: NetworkEngineWork) -> dict[str, str]:
        if is_controller_connected(self._files.run):
            return {"state": "ready", "reason": ""}
        return {
            "state": "starting",
            "reason": f"not connected to the centre at {work.southbound}: traffic goes on, changes "
            "wait",
        }

    def _set_up_uplink(self, ports: SwitchPorts, work: NetworkEngineWork) -> tuple[str, str]:
        try:
            prefix = Uplink(self._files, self._root).set_up(work.forwards, work.firewall)
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
        self._parts.stop()
        try:
            end_engine(self._root, self._config.owner_uid)
        except SupervisorError as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        return NetworkEngineReport(state="stopped")
