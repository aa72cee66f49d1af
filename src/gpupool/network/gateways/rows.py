"""Compiles the pair of gateways to rows of an OVN northbound database (ovn-nb(5)). Pure.

One chassis group serves all gateways of the pool, so that a move is one change, however many
networks there are.
"""

from __future__ import annotations

from typing import Final

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.gateways.model import GROUP, GatewayPair, GatewayRole, make_priority
from gpupool.network.model import Network, make_mac
from gpupool.network.rows import NorthboundRow, Value

#: What the rows name as their network: no network has such an id.
PAIR_KEY: Final = "gateway-pair"
#: Key of the row that routers' ports refer to.
GROUP_KEY: Final = "gateway-group"
#: Address of a drill's port: beside the resolver, where no job has one.
DRILL_ADDRESS: Final = RESOLVER_ADDRESSES[3]


def compile_pair(pair: GatewayPair) -> tuple[NorthboundRow, ...]:
    """Compile a pair to its rows. The watchdogs of its machines write priorities afterwards."""
    members = [_compile_member(pair, index) for index in range(len(pair.chassis))]
    group = NorthboundRow(
        "HA_Chassis_Group",
        GROUP_KEY,
        {"name": GROUP},
        {"ha_chassis": frozenset(member.key for member in members)},
    )
    return (group, *members)


def _compile_member(pair: GatewayPair, index: int) -> NorthboundRow:
    role = GatewayRole.STANDBY if index else GatewayRole.ACTIVE
    return NorthboundRow(
        "HA_Chassis",
        f"gateway-chassis/{pair.chassis[index]}",
        {"chassis_name": pair.chassis[index]},
        initial={"priority": make_priority(role, is_first=not index)},
    )


def name_drill_port(key: str) -> str:
    """Return the name of the logical switch port of a drill."""
    return f"gpupool-{key}"


def make_drill_mac(network: int) -> str:
    """Return the MAC address of a drill's port, by the network's row id."""
    return make_mac(0x32, network)


def compile_drill_port(network: Network) -> tuple[NorthboundRow, ...]:
    """Compile the port from which a drill probes; nothing where none runs.

    It has an address beside the resolver's, which the gateway translates, so it takes none of the
    network's.
    """
    if network.drill is None:
        return ()
    address = f"{make_drill_mac(network.id)} {DRILL_ADDRESS}"
    columns: dict[str, Value] = {
        "name": name_drill_port(network.drill),
        "addresses": (address,),
        "port_security": (address,),
    }
    return (NorthboundRow("Logical_Switch_Port", key_drill_port(network), columns),)


def key_drill_port(network: Network) -> str:
    return f"drill-port/{network.key}"
