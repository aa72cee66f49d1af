"""The pair of machines of gateways, and the priorities that say what each of them does. Pure.

OVN's active chassis is the one with the highest priority among those that are reached. A role has
two priorities, so that the two machines never have the same one, whatever roles they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Network
from typing import Final

#: The name of the chassis group of all gateways in the northbound database.
GROUP: Final = "gpupool-gateways"
#: What the agent maps to the bridge of the uplink has one MAC address on every machine: a router
#: that has learned it from one of them reaches the next one too. Locally administered.
CABLE_MAC: Final = "02:67:70:00:00:01"
#: Prefixes for the cable, in the order in which they are tried. The first two are of RFC 2544, the
#: others of RFC 6598: no address of the internet, and rarely used inside a company. Each pool with
#: gateways on one machine has one of its own.
UPLINK_PREFIXES: Final = (
    IPv4Network("198.18.0.0/16"),
    IPv4Network("198.19.0.0/16"),
    IPv4Network("100.127.0.0/16"),
    IPv4Network("100.125.0.0/16"),
    IPv4Network("100.124.0.0/16"),
)
#: Numbers of gateways, whose addresses are in the lower half of a prefix. 0 is of earlier
#: pools alone. The upper half is for floating IPs (`floating.model.INNER_NUMBERS`).
GATEWAY_NUMBERS: Final = range(1, 2**15 - 2)
#: Settings of the tunnels' BFD in `NB_Global.options` (ovn-nb(5)), in milliseconds: a machine that
#: is gone is noticed after 0.3 s, not after 3 s.
BFD_OPTIONS: Final = {"bfd-min-rx": "100", "bfd-min-tx": "100", "bfd-mult": "3"}

#: Seconds after which a drill that was not reported has failed: its agent was killed.
MOST_DRILL_SECONDS: Final = 60


class GatewayRole(IntEnum):
    """What a machine of the pair does; a larger one is preferred by OVN."""

    AWAY = 1
    STANDBY = 2
    ACTIVE = 3


@dataclass(frozen=True)
class GatewayPair:
    """The machines that serve the gateways.

    Attributes:
        chassis: how OVN knows them; the first is preferred where both have the same role.
    """

    chassis: tuple[str, str]


def make_priority(role: GatewayRole, *, is_first: bool) -> int:
    """Return the priority of a role: that of the pair's first machine is larger by one."""
    return 10 * role + (1 if is_first else 0)


def read_role(priority: int) -> GatewayRole:
    """Return the role of a priority; away for one that no role has."""
    role = priority // 10
    return GatewayRole(role) if role in set(GatewayRole) else GatewayRole.AWAY
