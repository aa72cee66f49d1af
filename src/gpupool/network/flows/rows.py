"""Compiles flow logs to rows of an OVN northbound database (ovn-nb(5), ACL and Meter). Pure.

Access control lists log packets by the name of their rule. Jobs in no security group have a list that
takes everything, so that their packets are logged too. A meter for each verdict bounds how many
packets of a network reach the log: what is denied is logged also while much is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpupool.network.flows.model import FlowVerdict
from gpupool.network.model import Network
from gpupool.network.rows import NorthboundRow, Value

#: Packets of one network and verdict that are logged in a second, at most. An established TCP
#: connection logs each packet, so records count these, not bytes.
LOGGED_PACKETS: Final = 100
#: Below all rules of security groups (0 to 32767).
_PRIORITY: Final = 1
#: Begins the name of a meter.
METER_PREFIX: Final = "gpupool-flows-"


def log_flows(network: Network, rows: Iterable[NorthboundRow]) -> tuple[NorthboundRow, ...]:
    """Let the rows of a network log what its flow logs have.

    Args:
        rows: all rows of the network.
    """
    every = list(rows)
    if not network.logged:
        return tuple(every)
    if "allowed" in network.logged:
        every += _compile_default(network)
    logging = [_log_list(network, row) if row.table == "ACL" else row for row in every]
    for verdict in sorted(network.logged):
        logging += _compile_meter(network, verdict)
    return tuple(logging)


def name_meter(network: str, verdict: FlowVerdict) -> str:
    """Return the name of the meter of a network, by its public id."""
    return f"{METER_PREFIX}{network}-{verdict}"


def parse_meter(name: str) -> str | None:
    """Return the public id of a meter's network; None: it is no meter of flow logs."""
    if not name.startswith(METER_PREFIX):
        return None
    return name.removeprefix(METER_PREFIX).rpartition("-")[0]


def _log_list(network: Network, row: NorthboundRow) -> NorthboundRow:
    verdict: FlowVerdict = "denied" if row.columns["action"] == "drop" else "allowed"
    if verdict not in network.logged:
        return row
    logging: dict[str, Value] = {
        "log": True,
        "severity": ("info",),
        "meter": (name_meter(network.key, verdict),),
        # Of 63 characters at most, as v-1/g-1/r-1.
        "name": (f"{network.key}/{row.key.removeprefix('acl/')}",),
    }
    return replace(row, columns={**row.columns, **logging})


def _compile_default(network: Network) -> list[NorthboundRow]:
    """Compile what takes the packets to jobs in no group, as without it, but logs them."""
    name = f"gpupool_flows_{network.key.replace('-', '_')}"
    ports = frozenset(f"port/{port.key}" for port in network.ports if not port.groups)
    key = f"acl/default/{network.key}"
    rule: dict[str, Value] = {
        "direction": "to-lport",
        "priority": _PRIORITY,
        "match": f"outport == @{name} && ip",
        # Stateless unless the switch tracks connections anyway: paths of packets stay as they are.
        "action": "allow",
    }
    return [
        NorthboundRow("ACL", key, rule),
        NorthboundRow(
            "Port_Group",
            f"port-group/flows/{network.key}",
            {"name": name},
            {"ports": ports, "acls": frozenset({key})},
        ),
    ]


def _compile_meter(network: Network, verdict: FlowVerdict) -> list[NorthboundRow]:
    key = f"flow-meter/{network.key}/{verdict}"
    band: dict[str, Value] = {
        "action": "drop",
        "rate": LOGGED_PACKETS,
        "burst_size": LOGGED_PACKETS,
    }
    return [
        NorthboundRow("Meter_Band", f"{key}/band", band),
        NorthboundRow(
            "Meter",
            key,
            {"name": name_meter(network.key, verdict), "unit": "pktps"},
            {"bands": frozenset({f"{key}/band"})},
        ),
    ]
