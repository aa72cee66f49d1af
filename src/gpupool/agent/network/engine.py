"""The engine on this machine: its daemons started, watched, and ended without a trace.

The centre has the databases; a member's controller connects to them.

Each daemon runs under a supervisor of its own, so it survives the agent; the next agent finds it
again. A daemon that ended is started again: the others wait for it, and what was forwarded goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from gpupool.agent.config import AgentConfig
from gpupool.agent.network.centre import Centre, has_own_databases
from gpupool.agent.network.certificate_files import write_certificate
from gpupool.agent.network.clustering.controller_state import (
    describe_connection,
    forget_other_cluster,
    wait_for_connection,
)
from gpupool.agent.network.clustering.controller_watch import watch_controller
from gpupool.agent.network.clustering.database_cluster import DatabaseCluster
from gpupool.agent.network.daemons import (
    SWITCH,
    TUNNEL_BRIDGE,
    check_machine,
    find_datapath,
    list_workers,
    locate_engine,
    make_switch_database,
    make_switch_settings,
    read_version,
)
from gpupool.agent.network.database_files import create_databases, create_directories
from gpupool.agent.network.datapath_features import DatapathFeatures
from gpupool.agent.network.engine_end import ENGINE, end_engine, make_helpers
from gpupool.agent.network.engine_parts import EngineParts
from gpupool.agent.network.gateways.drill import GatewayDrill
from gpupool.agent.network.gateways.gateway_machine import GatewayMachine
from gpupool.agent.network.lines.speakers import LineSpeakers
from gpupool.agent.network.namespaces import create_namespace
from gpupool.agent.network.report_limits import fit_report
from gpupool.agent.network.switch_ports import open_ports
from gpupool.agent.network.tunnel import Tunnel, lay_tunnel
from gpupool.agent.network.tunnel_address import find_source_address
from gpupool.agent.network.work_thread import WorkThread
from gpupool.agent.network.zones.zone_engines import ZoneEngines
from gpupool.agent.network.zones.zone_files import locate_zone
from gpupool.agent.network.zones.zoned_verifier import ZonedVerifier
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.wire.network.databases import DatabaseServerReport
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.lines import LineReport

#: Seconds in which a daemon has to come up, and between two looks at running ones.
_START_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
#: Seconds between two looks where there are proxies, which probe their backends as often, or
#: floating IPs.
_PROXY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class NetworkEngine:
    """The daemons of one machine, and the thread that starts and watches them."""

    def __init__(
        self,
        agent_dir: Path,
        config: AgentConfig,
        report: Callable[[NetworkEngineReport], None],
        zone: int = 0,
    ) -> None:
        """Make the engine; nothing runs yet.

        Args:
            agent_dir: the agent's state directory.
            report: queues a report for the server; never blocks.
            zone: of the networks that it carries. That of zone 0 runs those of the others.
        """
        root = locate_zone(agent_dir / "network", zone)
        self._files = locate_engine(root)
        self._root = root
        self._zone = zone
        self._config = config
        self._helpers = make_helpers(root, config.owner_uid)
        self._parts = EngineParts(self._files, root, config.owner_uid, self._helpers)
        self._centre = Centre(self._files, root, self._helpers)
        self._cluster = DatabaseCluster(self._files, root, self._helpers, self._centre)
        self._controller = watch_controller(self._files)
        self._tunnel = Tunnel(self._files, root)
        self._features = DatapathFeatures(self._files.remote("switch"), self._files.run)
        self._lines = LineSpeakers(self._files, root, self._helpers)
        self._gateway = GatewayMachine(self._files, root, self._helpers, config.name)
        self._report = report
        self._work: NetworkEngineWork | None = None
        self._last: NetworkEngineReport | None = None
        #: How the engine was when it had started with the work that it has now.
        self._started: NetworkEngineReport | None = None
        self._news = threading.Condition()
        self._is_closing = False
        self._has_started = False
        name = f"network-engine-{zone}" if zone else "network-engine"
        self._thread = SupervisedThread(name, self._run)
        make = partial(NetworkEngine, agent_dir, config)
        self._zones = ZoneEngines(root, config.owner_uid, make, self._wake)
        verify = ZonedVerifier(root).run
        self._verification = WorkThread("network-verification", verify, self._wake)
        self._drill = WorkThread("gateway-drill", GatewayDrill(self._files).run, self._wake)

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
        self._drill.apply_work(work.drill)

    def close(self) -> None:
        """Stop watching; the daemons go on. Idempotent."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.stop()
        self._cluster.close()
        self._controller.close()
        self._parts.close()
        self._verification.close()
        self._drill.close()
        self._zones.close()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        self._parts.join(seconds)
        self._verification.join(seconds)
        self._drill.join(seconds)
        self._zones.join(seconds)

    def _wake(self) -> None:
        with self._news:
            self._news.notify()

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            with mark_busy(6 * _START_SECONDS):
                report = self._stop() if work.want == "stop" else self._start(work)
                report = fit_report(self._zones.follow(work, report))
            # In every report from then on: one that is in the queue is replaced by the next.
            more = {
                "verification": self._verification.get_report(),
                "drill": self._drill.get_report(),
            }
            self._tell(work, report.model_copy(update=more))
            self._thread.mark_well()
        self._features.close()

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
        is_probed = work is not None and (work.proxies or work.floating_ips)
        return _PROXY_SECONDS if is_probed else _LOOK_SECONDS

    def _tell(self, work: NetworkEngineWork, report: NetworkEngineReport) -> None:
        with self._news:
            # Records of flows are in one report alone; the rest of it is the state.
            state = report.model_copy(update={"flows": []})
            is_news = bool(report.flows) or state != self._last
            # News that came meanwhile are still to be done: the report is not about them.
            if self._work is work:
                self._last = state
        if is_news:
            self._report(report)

    def _start(self, work: NetworkEngineWork) -> NetworkEngineReport:
        """Start what does not run, and say how it is. Idempotent."""
        done = self._started
        if done is not None and done.tunnel == self._find_tunnel_address(work):
            return self._parts.apply(work, self._watch(work, done))
        try:
            check_machine(self._config.owner_uid)
            write_certificate(self._files, work.certificate)
            create_directories(self._files)
            databases = self._cluster.apply(work, self._find_tunnel_address(work))
            create_databases(self._files, has_databases=has_own_databases(work))
            report = self._start_daemons(work, databases)
        except NetworkingUnavailable as error:
            hint = f"; {error.hint}" if error.hint else ""
            return NetworkEngineReport(state="failed", reason=f"{error.message}{hint}"[:400])
        except (SupervisorError, OSError) as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        with self._news:
            # Unless there is other work by now.
            self._started = report if self._work is work else None
        if self._zone and report.state == "ready":
            # The server writes rows from then on, and ports of proxies wait for theirs.
            self._report(report)
        return self._parts.apply(work, report, is_news=True)

    def _watch(self, work: NetworkEngineWork, done: NetworkEngineReport) -> NetworkEngineReport:
        """Start daemons that have ended; their settings are in their databases."""
        try:
            databases = self._cluster.watch(work)
            self._start_processes(work)
            if work.uplink and not done.uplink:
                self._look_for_uplink(work)
            self._features.restrict()
            self._tunnel.restore()
            gateway = self._gateway.follow(work)
            floating = self._gateway.probe_floating(work)
            lines = self._follow_lines(work)
        except (NetworkingUnavailable, SupervisorError, OSError) as error:
            return done.model_copy(update={"state": "failed", "reason": str(error)[:400]})
        more = {"databases": databases, "gateway": gateway, "floating_ips": floating}
        done = done.model_copy(update=more)
        if work.role == "member":
            return done.model_copy(update=describe_connection(self._files.run, work))
        connection = describe_connection(self._files.run, work) if work.is_external else {}
        return done.model_copy(update={"lines": lines, **connection})

    def _start_processes(self, work: NetworkEngineWork) -> None:
        self._helpers.start(ENGINE, (make_switch_database(self._files),))
        if has_own_databases(work):
            self._centre.start()
        if not self._helpers.is_running(SWITCH):
            self._gateway.demote(work)
        self._helpers.start(ENGINE, list_workers(self._files))

    def _look_for_uplink(self, work: NetworkEngineWork) -> None:
        """Try again where no prefix was free: another pool of the machine may have ended."""
        with closing(open_ports(self._files)) as ports:
            prefix, _ = self._gateway.set_up_uplink(ports, work)
        if prefix:
            with self._news:
                self._started = None  # the next look starts all that depends on it

    def _follow_lines(self, work: NetworkEngineWork) -> list[LineReport]:
        # Only of an engine that was reported: the server writes the lines' rows from then on.
        if not work.lines or not work.line_interface:
            return []
        with closing(open_ports(self._files)) as ports:
            return self._lines.follow(ports, work)

    def _start_daemons(
        self, work: NetworkEngineWork, databases: DatabaseServerReport | None
    ) -> NetworkEngineReport:
        """Start the daemons, connect them, and say how they are."""
        address = self._find_tunnel_address(work)
        create_namespace(self._files.namespace)
        if not has_own_databases(work):
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
            forget_other_cluster(ports, self._files.run, work.cluster)
            self._start_processes(work)
            if not ports.wait_for_bridge(_START_SECONDS):
                raise NetworkingUnavailable(
                    f"the switch did not make its bridge within {_START_SECONDS:g} s",
                    hint=f"see the logs below {self._root / 'daemons'}",
                )
            self._features.wait_for_switch()
            uplink, reason = self._gateway.set_up_uplink(ports, work)
            reason = "; ".join(filter(None, (reason, self._lines.prepare(ports, work))))
            # After the uplink, whose end stops the machine's forwarding as a whole.
            mtu = 0
            if _has_tunnel(work):
                mtu = lay_tunnel(self._tunnel, ports, address, work.mtu)
            else:
                ports.remove_bridge(TUNNEL_BRIDGE)
                self._tunnel.remove()
        finally:
            ports.close()
        self._controller.follow(work.southbound)
        report = NetworkEngineReport(
            state="ready",
            reason=reason[:400],
            uplink=uplink,
            tunnel=address,
            mtu=mtu,
            datapath=datapath,
            version=read_version(),
            databases=databases,
            gateway=self._gateway.follow(work),
        )
        if work.role == "member" or work.is_external:
            return wait_for_connection(self._files.run, work, report, _START_SECONDS)
        return report.model_copy(update=self._centre.open(address, work))

    def _find_tunnel_address(self, work: NetworkEngineWork) -> str:
        """Return the address of tunnels; empty where the pool has one machine."""
        if not _has_tunnel(work):
            return ""
        return self._config.tunnel_address or find_source_address()

    def _stop(self) -> NetworkEngineReport:
        self._parts.stop()
        self._cluster.close()
        self._controller.follow("")
        self._features.close()
        try:
            self._zones.end()
            end_engine(self._root, self._config.owner_uid)
        except SupervisorError as error:
            return NetworkEngineReport(state="failed", reason=str(error)[:400])
        return NetworkEngineReport(state="stopped")


def _has_tunnel(work: NetworkEngineWork) -> bool:
    """Whether other machines reach this one over tunnels: of the pool, or of the OVN it joined."""
    return work.certificate is not None or work.is_external
