"""The engine that carries networks: the wish is the server's, the fact is the agent's.

The agent of the centre runs the databases; every agent runs a switch. Agents learn of the wish with
their work and report how far they are; `reconciler` connects where the centre says. The rows of the
machines are in `machines`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable, StillInUse
from gpupool.base.health import CheckFinding
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.standbys import note_moves
from gpupool.network.engine_row import (
    apply_centre_report,
    apply_uplink,
    change_gateways,
    read_engine_row,
    renew_work,
    write_engine_row,
)
from gpupool.network.engine_work import read_engine_work
from gpupool.network.external import membership as external
from gpupool.network.external.departure import Departure
from gpupool.network.floating.opening import open_floating_prefix
from gpupool.network.floating.reports import apply_floating_reports, end_floating
from gpupool.network.flows.records import apply_flow_reports
from gpupool.network.forwarding.open_ports import parse_ports, refuse_closed_ports
from gpupool.network.gateways.reading import list_gateway_agents
from gpupool.network.gateways.reports import apply_drill_report, apply_gateway_report
from gpupool.network.limiting.readings import merge_readings
from gpupool.network.lines.opening import change_opening, parse_vlans
from gpupool.network.lines.reports import apply_line_reports, end_lines
from gpupool.network.machines import database_servers as servers
from gpupool.network.machines import service as machines
from gpupool.network.machines.engine_check import check_engine
from gpupool.network.machines.northbound_remote import read_northbound
from gpupool.network.machines.views import count_rows, describe_engine
from gpupool.network.mirroring.mirror_states import MirrorStates
from gpupool.network.tables import network_engine, network_ports
from gpupool.network.verification.work import apply_verification
from gpupool.network.zones.reports import (
    add_refused,
    apply_zone_reports,
    forget_zones,
)
from gpupool.network.zones.service import (
    place_all,
    refuse_elsewhere,
    refuse_machines,
    write_zone_size,
)
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.secrets.vault import SECRET_ERRORS
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.networks import NetworkEngineIn, NetworkEngineOut

log = logging.getLogger(__name__)


class NetworkEngineService:
    """The wish for the engine, and what its agent reports. Thread-safe."""

    def __init__(
        self,
        store: Store,
        owner_uid: int | None,
        find_agents: Callable[[sa.Connection], Sequence[str]],
        is_silent: Callable[[str], bool] = lambda _agent: False,
    ) -> None:
        """Make the service.

        Args:
            owner_uid: Unix user that the pool runs as; None where it is not known.
            find_agents: returns the agents of the pool's own nodes, the first registered first.
            is_silent: whether an agent has missed its heartbeats.
        """
        self._store = store
        self._owner_uid = owner_uid
        self._find_agents = find_agents
        self.proxies = ProxyStates(is_silent)
        self.mirrors = MirrorStates()
        self._is_silent = is_silent
        self._relay_socket = ""
        self.departure = Departure(store, self._settle_end)

    def get_state(self) -> NetworkEngineOut:
        """Return how the engine is."""
        with self._store.read() as connection:
            out = self._describe(connection)
        if out.state == "stopping":
            with self._store.write() as write:
                # A machine that is silent by now is no longer waited for.
                self._settle_end(write)
                out = self._describe(write.connection)
        return out.model_copy(update={"relay_socket": self._relay_socket})

    def enable(self, body: NetworkEngineIn | None = None) -> NetworkEngineOut:
        """Ask the pool's agents to run the engine. Idempotent; returns at once.

        Another centre than before gets empty databases, which are written from the pool's.

        Raises:
            NetworkingUnavailable: the pool does not run as root, or has no such machine.
            BadAddress: the ports or VLANs for tenants are no range of them.
            StillInUse: what would be taken from tenants is used.
            WrongState: the engine runs with other databases, another pool is in that OVN, or networks
                are in several zones, which need one machine.
        """
        wanted = None if body is None else body.ovn
        ovn = None if wanted is None else external.parse_ovn(wanted, self._store.clock.now_ns())
        ports = None if body is None else body.forward_ports
        size = None if body is None else body.zone_size
        if ports:
            parse_ports(ports)
        if body is not None and body.line_vlans:
            parse_vlans(body.line_vlans)
        if self._owner_uid != 0:
            raise NetworkingUnavailable(
                f"networks need a pool of root; this one runs as uid {self._owner_uid}",
                hint="an admin starts one: sudo gpupool up",
            )
        if ovn is not None:
            external.probe_ovn(self._store, ovn)
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            if ovn is not None:
                external.join_ovn(write, self._store.secrets, ovn, is_off=row is None)
            agent = self._choose_centre(write.connection, row, None if body is None else body.node)
            is_other = row is not None and row.agent != agent
            refuse_elsewhere(write.connection, row, agent, None if body is None else body.databases)
            if is_other:
                servers.end_unformed(write)
            if row is None or row.state in ("failed", "stopping") or is_other:
                write_engine_row(write, agent)
                write_zone_size(write, size)
                forget_zones(write)
                if row is None:
                    place_all(write, len(self._find_agents(write.connection)))
                write.event("network.enabled", agent)
                machines.begin_start(write)
                external.expect_rows(write)
                self._bring_in(write, agent, self._find_agents(write.connection))
                machines.announce_machines(write)
                write.announce("network-engine")
            write_zone_size(write, size)
            if ports is not None:
                refuse_closed_ports(write.connection, ports)
                write.execute(network_engine.update().values(forward_ports=ports))
            if ovn is not None:
                machines.announce_machines(write)
            if body is not None and body.floating_ips is not None:
                open_floating_prefix(write, body.floating_ips)
            if body is not None and body.databases is not None:
                external.require_own_databases(
                    write.connection, "a cluster is made of databases of the pool's own"
                )
                self._choose_servers(write, body.databases, agent)
            if body is not None:
                row = read_engine_row(write.connection)
                change_gateways(write, row, body.gateway_ipv6)
                if change_opening(write, row, body.line_interface, body.line_vlans):
                    renew_work(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _choose_servers(self, write: WriteTransaction, wanted: Sequence[str], centre: str) -> None:
        agents = self._find_agents(write.connection)
        for agent in wanted:
            machines.require_machine(agent, agents)
        if servers.choose_servers(write, wanted, centre, self._is_silent):
            if not servers.read_servers(write.connection):
                # The centre reports the end of the cluster.
                write.execute(network_engine.update().values(state="starting", reason=""))
            machines.announce_machines(write)
            write.announce("network-engine")

    def _choose_centre(self, connection: sa.Connection, row: Any, wanted: str | None) -> str:
        agents = self._find_agents(connection)
        if wanted is not None:
            machines.require_machine(wanted, agents)
        if not agents:
            raise NetworkingUnavailable("this pool has no machine yet", hint="gpupool gpus")
        if wanted is not None:
            return wanted
        return str(row.agent) if row is not None and row.agent in agents else agents[0]

    def admit_agent(self, agent: str) -> None:
        """Make a machine part of an engine that is enabled, and renew what is due. Idempotent."""
        with self._store.read() as connection:
            row = read_engine_row(connection)
            is_wanted = row is not None and row.state != "stopping"
            if not is_wanted or agent not in self._find_agents(connection):
                return
            known = machines.find_machine(connection, agent)
            if refuse_machines(connection, row.agent, [agent]):
                # The state of the engine says so.
                return
            now_ns = self._store.clock.now_ns()
            secrets = self._store.secrets
            if known is not None and not machines.is_renewal_due(known, now_ns, secrets):
                return
        try:
            with self._store.write() as write:
                if self._bring_in(write, row.agent, [agent]):
                    machines.announce_machines(write)
        except (NetworkingUnavailable, *SECRET_ERRORS) as error:
            # Its other work goes on.
            log.warning("%s joins no networks: %s", agent, error)

    def _bring_in(self, write: WriteTransaction, centre: str, agents: Sequence[str]) -> bool:
        """Admit machines with the certificates of all of them; whether something changed.

        With several zones the centre is the only one.
        """
        refused = refuse_machines(write.connection, centre, agents)
        has_new = machines.admit_machines(write, [one for one in agents if one not in refused])
        return machines.renew_certificates(write, self._store) or has_new

    def disable(self, *, leaves_rows: bool = False) -> NetworkEngineOut:
        """Ask the agents to end the engine and to remove all of it. Idempotent; returns at once.

        Networks stay in the pool and are carried again once it is enabled.

        Args:
            leaves_rows: do not wait for an OVN of others, where the pool's rows are to be deleted.

        Raises:
            StillInUse: jobs are in networks.
        """
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            count = count_rows(write.connection, network_ports)
            if count:
                jobs = "1 job is" if count == 1 else f"{count} jobs are"
                raise StillInUse(
                    f"{jobs} in networks",
                    hint="wait for them or stop them: gpupool ps",
                    jobs=count,
                )
            if row is not None and row.state != "stopping":
                write.execute(
                    network_engine.update().values(
                        state="stopping", reason="", work_seq=write.touch_ledger()
                    )
                )
                write.event("network.disabled", row.agent)
                machines.stop_members(write, row.agent)
                servers.end_servers(write)
                write.announce("network-engine")
            if leaves_rows:
                external.note_departure(write, "")
            self._settle_end(write)
            out = self._describe(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def read_work(
        self, connection: sa.Connection, agent: str, after: int
    ) -> tuple[int, NetworkEngineWork | None]:
        """Read what an agent has to do about the engine behind its cursor, and the new cursor."""
        return read_engine_work(connection, self._store, agent, after)

    def apply_report(self, agent: str, report: NetworkEngineReport) -> None:
        """Apply what an agent says of the engine. Idempotent."""
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            if row is None or row.state == "stopping":
                if report.state == "stopped":
                    machines.forget_machine(write, agent)
                    self._settle_end(write)
                return
            if report.state == "stopped":
                return
            if report.limits is not None:
                merge_readings(write, report.limits)
            self.mirrors.replace(agent, report.mirrors)
            apply_flow_reports(write, agent, report.flows)
            apply_floating_reports(write, report.floating_ips)
            if report.verification is not None:
                apply_verification(write, report.verification)
            if report.gateway is not None:
                apply_gateway_report(write, agent, report.gateway)
            if report.drill is not None:
                apply_drill_report(write, report.drill)
            before = machines.find_machine(write.connection, agent)
            if machines.note_report(write, agent, report):
                data = {"reason": report.reason}
                write.event(f"network.{report.state}", agent, data=data)
                write.announce("network-engine")
            given = servers.apply_server_report(write, row.agent, agent, report.databases)
            machines.announce_machines(write, given)
            if report.state != "starting":
                apply_uplink(write, row, agent, report.uplink)
            if agent in list_gateway_agents(write.connection, row.agent):
                moved = self.proxies.replace(agent, report.proxies, report.missing_proxy)
                note_moves(write, agent, moved)
            else:
                self.proxies.forget(agent)
            if row.agent != agent:
                return
            self._relay_socket = report.relay_socket
            apply_line_reports(write, report.lines)
            apply_zone_reports(write, report.zones)
            if before is not None and report.southbound not in ("", before.southbound):
                others = [one.agent for one in machines.read_machines(write.connection)]
                machines.announce_machines(write, [other for other in others if other != agent])
            apply_centre_report(write, row, report)

    def _settle_end(self, write: WriteTransaction) -> None:
        """Let the centre end after its members, and switch the engine off after it.

        So members remove their rows from databases that still answer. A silent machine is not
        waited for.
        """
        row = read_engine_row(write.connection)
        if row is None or row.state != "stopping":
            return
        if machines.has_more_to_end(write, row.agent, self._is_silent):
            return
        ovn = external.read_ovn(write.connection)
        if ovn is not None and ovn.has_rows:
            return
        external.forget_ovn(write)
        # The row stays for what an admin has opened.
        write.execute(network_engine.update().values(state="off", uplink=""))
        end_lines(write)
        end_floating(write)
        forget_zones(write)
        write.event("network.stopped", row.agent)
        write.announce("network-engine")

    def check(self) -> CheckFinding:
        """Check that networks are carried; a pool that did not enable them is well."""
        return check_engine(self.get_state())

    def read_northbound(self, zone: int = 0) -> str | None:
        """Return where the northbound database of a zone is; None while it is not ready."""
        return read_northbound(self._store, zone)

    def _describe(self, connection: sa.Connection) -> NetworkEngineOut:
        out = describe_engine(connection, read_engine_row(connection), self._is_silent)
        return add_refused(out, self._find_agents(connection))
