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
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.ipv6 import addresses as ipv6
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
_HAS_IPV6: Final = "gpupool-ipv6"
_HAS_GATEWAY6: Final = "gpupool-gateway6"
_HAS_OUTSIDE6: Final = "gpupool-outside6"

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
        has_ipv6: whether it is asked over IPv6 too.
        has_gateway6: whether the gateway of the network carries IPv6 too.
        has_outside6: whether the network leads IPv6 out of unique local addresses.
    """

    port: str
    number: int
    mtu: int
    domain: str
    addresses: Mapping[str, tuple[IPv4Address | IPv6Address, ...]]
    is_forwarding: bool
    has_ipv6: bool = False
    has_gateway6: bool = False
    has_outside6: bool = False


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
    address = f"{make_resolver_mac(network.id)} {RESOLVER_ADDRESS}"
    if network.has_ipv6:
        address += f" {ipv6.RESOLVER_ADDRESS}"
    columns: dict[str, Value] = {
        "name": name_resolver_port(network),
        "type": "localport",
        "addresses": (address,),
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
    addresses = dict[str, tuple[IPv4Address | IPv6Address, ...]]()
    for option, text in options.items():
        name = option.removeprefix(_NAME)
        if name != option and is_host_name(name, domain):
            addresses[name] = _parse_addresses(text)
    is_forwarding = options.get(_FORWARDS) == "true"
    has_ipv6 = options.get(_HAS_IPV6) == "true"
    return ResolverConfig(
        port,
        int(number),
        int(mtu),
        domain,
        addresses,
        is_forwarding,
        has_ipv6,
        options.get(_HAS_GATEWAY6) == "true",
        options.get(_HAS_OUTSIDE6) == "true",
    )


def _make_options(network: Network) -> dict[str, str]:
    options = {_DOMAIN: network.domain, _NUMBER: str(network.id), _MTU: str(network.mtu)}
    for name, found in _collect_names(network).items():
        if is_host_name(name, network.domain):
            options[f"{_NAME}{name}"] = " ".join(found)
    if network.gateway is not None:
        options[_FORWARDS] = "true"
        if network.gateway.address6 is not None:
            options[_HAS_GATEWAY6] = "true"
    if network.has_ipv6:
        options[_HAS_IPV6] = "true"
    if network.has_outside6:
        options[_HAS_OUTSIDE6] = "true"
    return options


def _collect_names(network: Network) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = defaultdict(list)
    for port in network.ports:
        addresses[port.name] += _list_addresses(port.address, port.address6)
    for record in network.records:
        addresses[record.name].append(str(record.address))
    for balancer in network.balancers:
        # Also where a job has that name: the job is found by the long name of its array, or not at all.
        address6 = balancer.address6 if network.has_ipv6 else None
        addresses[balancer.dns_name] = _list_addresses(balancer.address, address6)
    return addresses


def _list_addresses(address: IPv4Address, address6: IPv6Address | None) -> list[str]:
    return [str(address)] if address6 is None else [str(address), str(address6)]


def _parse_addresses(text: str) -> tuple[IPv4Address | IPv6Address, ...]:
    found = list[IPv4Address | IPv6Address]()
    for word in text.split():
        try:
            found.append(ip_address(word))
        except ValueError:
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
