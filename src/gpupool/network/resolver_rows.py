"""Compiles the resolver of a network to rows of an OVN northbound database (ovn-nb(5)). Pure.

A port of type `localport`, which each chassis has, and a second address of the router beside it. The
options of the port carry the names: northd(8) copies them to the southbound database, where the
agents of all chassis read them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.model import Gateway, Network, Subnet, make_mac
from gpupool.network.rows import NorthboundRow, Value

#: The address of the resolver, alike in all networks, and that of the router beside it.
RESOLVER_ADDRESS: Final = RESOLVER_ADDRESSES[2]
ROUTER_ADDRESS: Final = RESOLVER_ADDRESSES[1]

#: Options of the port. OVN passes over options that it does not know; the prefix keeps a tenant's
#: names apart from those that it does.
_NAME: Final = "gpupool-name:"
_DOMAIN: Final = "gpupool-domain"
_NUMBER: Final = "gpupool-number"
_MTU: Final = "gpupool-mtu"
_FORWARDS: Final = "gpupool-forwards"

#: A label of a host name (RFC 1123 section 2.1), in small letters.
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
#: Characters of a name with the domains behind it (RFC 1035 section 2.3.4).
_LONGEST_NAME: Final = 253


@dataclass(frozen=True)
class ResolverConfig:
    """What the resolver of a network answers.

    Attributes:
        port: name of its port; another one once that is on another switch.
        number: row id of the network, unique in the pool.
        mtu: largest packet inside the network, in bytes.
        domain: of the network's names.
        addresses: by name without the domain, its addresses.
        is_forwarding: whether other names are looked up outside; else they do not exist.
    """

    port: str
    number: int
    mtu: int
    domain: str
    addresses: Mapping[str, tuple[IPv4Address, ...]]
    is_forwarding: bool


def is_host_name(name: str, domain: str) -> bool:
    """Whether a name can be asked for in a domain."""
    return len(name) + 1 + len(domain) <= _LONGEST_NAME and bool(_HOST_NAME.fullmatch(name))


def name_resolver_port(network: Network) -> str:
    """Return the name of the resolver's port, which is the `iface-id` of its interface.

    It names the subnet, so that a port on another switch is another port.
    """
    return f"gpupool-resolver-{network.subnets[0].key}"


def make_resolver_mac(number: int) -> str:
    """Return the MAC address of the resolver of a network, by the network's row id."""
    return make_mac(0x2A, number)


def compile_resolver(network: Network) -> tuple[NorthboundRow, ...]:
    """Compile a resolver to its rows, without those that refer to them."""
    columns: dict[str, Value] = {
        "name": name_resolver_port(network),
        "type": "localport",
        "addresses": (f"{make_resolver_mac(network.id)} {RESOLVER_ADDRESS}",),
        "port_security": (),
        "options": _make_options(network),
    }
    rows = [NorthboundRow("Logical_Switch_Port", key_resolver(network), columns)]
    if network.gateway is not None:
        rows.append(_compile_nat(network, network.gateway))
    return tuple(rows)


def key_resolver(network: Network) -> str:
    """Return the key of the resolver's port."""
    return f"resolver-port/{network.key}"


def has_resolver(network: Network, subnet: Subnet) -> bool:
    """Whether the resolver's port is on the switch of this subnet: the first of the network.

    A switch of its own would be tidier, and costs northd(8) half as much again for each change.
    """
    return subnet.key == network.subnets[0].key


def key_resolver_nat(network: Network) -> str:
    """Return the key of the row that translates the resolver's address at the gateway."""
    return f"resolver-nat/{network.key}"


def read_resolver(port: str, options: Mapping[str, str]) -> ResolverConfig | None:
    """Read the options of a resolver's port; None where they are no resolver's.

    What is no name or no address is left out: it never reaches a file of the resolver.
    """
    domain = options.get(_DOMAIN, "")
    number = options.get(_NUMBER, "")
    mtu = options.get(_MTU, "")
    if not (number.isdecimal() and mtu.isdecimal() and is_host_name(domain, "")):
        return None
    addresses = dict[str, tuple[IPv4Address, ...]]()
    for option, text in options.items():
        name = option.removeprefix(_NAME)
        if name != option and is_host_name(name, domain):
            addresses[name] = _parse_addresses(text)
    is_forwarding = options.get(_FORWARDS) == "true"
    return ResolverConfig(port, int(number), int(mtu), domain, addresses, is_forwarding)


def _make_options(network: Network) -> dict[str, str]:
    options = {_DOMAIN: network.domain, _NUMBER: str(network.id), _MTU: str(network.mtu)}
    for name, found in _collect_names(network).items():
        if is_host_name(name, network.domain):
            options[f"{_NAME}{name}"] = " ".join(found)
    if network.gateway is not None:
        options[_FORWARDS] = "true"
    return options


def _collect_names(network: Network) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = defaultdict(list)
    for port in network.ports:
        addresses[port.name].append(str(port.address))
    for record in network.records:
        addresses[record.name].append(str(record.address))
    for balancer in network.balancers:
        # Also where a job has that name: the job is found by the long name of its array, or not at all.
        addresses[balancer.name.lower()] = [str(balancer.address)]
    return addresses


def _parse_addresses(text: str) -> tuple[IPv4Address, ...]:
    found = list[IPv4Address]()
    for word in text.split():
        try:
            found.append(IPv4Address(word))
        except AddressValueError:
            continue
    return tuple(found)


def _compile_nat(network: Network, gateway: Gateway) -> NorthboundRow:
    return NorthboundRow(
        "NAT",
        key_resolver_nat(network),
        {
            "type": "snat",
            "external_ip": str(gateway.address),
            "logical_ip": str(RESOLVER_ADDRESSES),
        },
    )
