"""What each agent has to do about the engine: read for one machine, from what is wanted of all."""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa

from gpupool.network.balancing.proxy_reading import read_proxy_work
from gpupool.network.engine_row import read_engine_row
from gpupool.network.external.membership import read_ovn, read_ovn_certificate
from gpupool.network.firewall.reading import read_firewall_work
from gpupool.network.floating.reading import read_floating_work
from gpupool.network.flows.reading import has_flow_logs
from gpupool.network.forwarding.reading import read_forward_work
from gpupool.network.gateways.reading import list_gateway_agents, read_drill_work, read_gateway_work
from gpupool.network.ipv6.gateways import list_networks6
from gpupool.network.limiting.reading import read_limit_work
from gpupool.network.lines.reading import read_line_work
from gpupool.network.machines import database_servers as servers
from gpupool.network.machines import service as machines
from gpupool.network.mirroring.reading import read_mirror_work
from gpupool.network.reading import read_uplink
from gpupool.network.verification.work import read_verification_work
from gpupool.network.zones.service import list_zones
from gpupool.store.database import Store
from gpupool.store.secrets.vault import SECRET_ERRORS
from gpupool.wire.network.engine import NetworkEngineWork

log = logging.getLogger(__name__)


def read_engine_work(
    connection: sa.Connection, store: Store, agent: str, after: int
) -> tuple[int, NetworkEngineWork | None]:
    """Read what an agent has to do behind its cursor, and the new cursor.

    While its secrets cannot be decrypted it gets nothing new: what it carries goes on.
    """
    try:
        return _read_work(connection, store, agent, after)
    except SECRET_ERRORS as error:
        log.warning("%s gets no work of networks: %s", agent, error.message)
        return after, None


def _read_work(
    connection: sa.Connection, store: Store, agent: str, after: int
) -> tuple[int, NetworkEngineWork | None]:
    secrets = store.secrets
    machine = machines.find_machine(connection, agent)
    if machine is None or machine.work_seq <= after:
        return after, None
    row = read_engine_row(connection)
    if row is None or machine.state == "stopping":
        return machine.work_seq, NetworkEngineWork(want="stop")
    if row.state == "stopping":
        # The centre, whose members end first.
        return after, None
    has_gateways = agent in list_gateway_agents(connection, row.agent)
    shared: dict[str, Any] = {
        "want": "run",
        "chassis": machines.name_chassis(agent, row.agent),
        "certificate": machines.read_certificate(machine, secrets),
        "mtu": machines.read_largest_mtu(connection),
        "flows": has_flow_logs(connection),
        "mirrors": read_mirror_work(connection),
        "limits": read_limit_work(connection, gateways=has_gateways),
        "gateway": read_gateway_work(connection, agent, row),
    }
    databases, southbound = servers.find_part(servers.read_parts(connection, row.agent), agent)
    cluster = servers.find_cluster(connection) if southbound else 0
    shared |= {"databases": databases, "cluster": cluster}
    ovn = read_ovn(connection)
    if ovn is not None:
        southbound = ovn.southbound
        shared |= {"is_external": True, "certificate": read_ovn_certificate(ovn, secrets)}
    shared["southbound"] = southbound
    if has_gateways:
        uplink = read_uplink(connection)
        shared["uplink"] = machines.has_gateways(connection)
        shared["uplink6"] = bool(list_networks6(connection))
        shared["forwards"] = read_forward_work(connection, uplink)
        shared["firewall"] = read_firewall_work(connection, uplink)
        is_second = shared["gateway"] is not None and not shared["gateway"].is_first
        shared["proxies"] = read_proxy_work(connection, is_second=is_second)
        shared["floating_ips"] = read_floating_work(connection, uplink)
    if agent != row.agent:
        centre = machines.find_machine(connection, row.agent)
        shared["southbound"] = southbound or ("" if centre is None else centre.southbound)
        if not shared["southbound"]:
            # The centre's report gives it this work again.
            return after, None
        return machine.work_seq, NetworkEngineWork(role="member", **shared)
    others = [one.agent for one in machines.read_machines(connection) if one.agent != agent]
    return machine.work_seq, NetworkEngineWork(
        members=[machines.name_chassis(other, agent) for other in others],
        drill=read_drill_work(connection, row, store.clock.now_ns()),
        line_interface=row.line_interface,
        lines=read_line_work(connection, secrets),
        verification=read_verification_work(connection),
        zones=list_zones(connection),
        **shared,
    )
