"""Judges the networks of all Tenants beside each other: namespaces, consent of peers, overlaps. Pure.

A peering needs both Tenants. One that is refused leaves the rest of either network in force.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.kubernetes.networks.kube_ovn import PREFIX
from gpupool.kubernetes.resources.network_parts.subnets import list_prefixes
from gpupool.kubernetes.resources.network_parts.values import LINKS, LINKS6, NAME
from gpupool.kubernetes.resources.tenant_network import TenantNetwork

#: Characters of the name of a Tenant with a network: part of labels, which have 63.
_LONGEST_NAME = 32
#: Links are taken from these /24 of 169.254.0.0/16. The metadata services of clouds are outside
#: (169.254.169.254), and so is 169.254.0.0/20, which Kubernetes distributions use on nodes.
_FIRST_BLOCK = 16
_LAST_BLOCK = 159
_LINKS_IN_BLOCK = 64
#: IPv6 addresses of links, one for each of the IPv4 ones.
_LINK6_BASE = int(LINKS6[0]) + (0xFFFF << 64)

Prefix = IPv4Network | IPv6Network


@dataclass(frozen=True)
class NetworkRefusal:
    """Why a network is not written: an error as a value, so that two passes compare equal."""

    code: str
    message: str
    hint: str = ""

    @classmethod
    def of_error(cls, error: GpupoolError) -> NetworkRefusal:
        return cls(error.code, error.message, error.hint)


@dataclass(frozen=True)
class NetworkWish:
    """What a Tenant wants.

    Attributes:
        namespaces: that it lists.
        problem: why its network cannot be read.
    """

    name: str
    namespaces: tuple[str, ...]
    network: TenantNetwork | None = None
    problem: NetworkRefusal | None = None


@dataclass(frozen=True)
class JudgedPeering:
    """A peering that both Tenants want.

    Attributes:
        link: addresses of the two routers on their link.
        is_first: whether this network has the first of them.
        prefixes: subnets of the peer; IPv6 ones where both networks have IPv6.
        link6: the IPv6 addresses of the link; None: one of the networks has no IPv6.
    """

    peer: str
    link: IPv4Network
    is_first: bool
    prefixes: tuple[Prefix, ...]
    link6: IPv6Network | None = None


@dataclass(frozen=True)
class NetworkVerdict:
    """What holds for one Tenant's network.

    Attributes:
        refusal: why nothing of it is written.
        namespaces: of each subnet, by its name.
        missing: one sentence for each peering that is not in force.
    """

    refusal: NetworkRefusal | None = None
    namespaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    peerings: tuple[JudgedPeering, ...] = ()
    missing: tuple[str, ...] = ()


def judge_networks(wishes: Mapping[str, NetworkWish]) -> dict[str, NetworkVerdict]:
    """Return the verdict on each Tenant that wants a network."""
    owners = _list_owners(wishes)
    placed: dict[str, Mapping[str, tuple[str, ...]]] = {}
    refusals: dict[str, NetworkRefusal] = {}
    for name in sorted(wishes):
        wish = wishes[name]
        if wish.problem is not None:
            refusals[name] = wish.problem
        elif wish.network is not None:
            try:
                placed[name] = _place_namespaces(wish, wish.network, owners)
            except GpupoolError as error:
                refusals[name] = NetworkRefusal.of_error(error)
    peerings, missing = _judge_peerings(wishes, placed)
    verdicts = {name: NetworkVerdict(refusal) for name, refusal in refusals.items()}
    for name, namespaces in placed.items():
        verdicts[name] = NetworkVerdict(
            None, namespaces, tuple(peerings[name]), tuple(missing[name])
        )
    return verdicts


def _list_owners(wishes: Mapping[str, NetworkWish]) -> dict[str, list[str]]:
    """Return the Tenants that list each namespace."""
    owners: dict[str, list[str]] = {}
    for name in sorted(wishes):
        for space in wishes[name].namespaces:
            owners.setdefault(space, []).append(name)
    return owners


def _check_name(name: str) -> None:
    # Kube-OVN calls the ports between two VPCs `VPC-PEER`. With the prefix inside of a Tenant's
    # name, two pairs of VPCs could have the same port.
    unclear = PREFIX in name.split("-")
    if unclear or not re.fullmatch(NAME, name) or len(name) > _LONGEST_NAME:
        raise BadOption(
            f"a Tenant called {name} ({len(name)} characters) cannot have a network",
            hint=f"up to {_LONGEST_NAME} lower-case letters, digits and single hyphens,"
            f" without {PREFIX!r} between hyphens",
        )


def _place_namespaces(
    wish: NetworkWish, network: TenantNetwork, owners: Mapping[str, list[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the namespaces of each subnet. Raises BadOption."""
    _check_name(wish.name)
    own = wish.namespaces
    # As for quotas: a namespace that no Tenant lists belongs to the Tenant of its own name.
    if not own and wish.name not in owners:
        own = (wish.name,)
    for space in own:
        listing = owners.get(space, [])
        if len(listing) > 1:
            raise BadOption(
                f"namespace {space} is listed by {' and '.join(listing)}",
                hint="a namespace has one Tenant",
            )
    subnet_of: dict[str, str] = {}
    found = {}
    for subnet in network.subnets:
        spaces = subnet.namespaces or own
        for space in spaces:
            if space not in own:
                raise BadOption(
                    f"subnet {subnet.name} names namespace {space}, which is not of this Tenant",
                    hint=f"it has {', '.join(own) or 'none'}",
                )
            other = subnet_of.setdefault(space, subnet.name)
            if other != subnet.name:
                raise BadOption(
                    f"namespace {space} is in the subnets {other} and {subnet.name}",
                    hint="name the namespaces of each subnet, each namespace once",
                )
        found[subnet.name] = spaces
    for balancer in network.balancers:
        if balancer.namespace not in own:
            raise BadOption(
                f"balancer {balancer.name} names namespace {balancer.namespace!r},"
                " which is not of this Tenant",
                hint=f"it has {', '.join(own) or 'none'}",
            )
    return found


def _judge_peerings(
    wishes: Mapping[str, NetworkWish], placed: Mapping[str, object]
) -> tuple[dict[str, list[JudgedPeering]], dict[str, list[str]]]:
    """Return the peerings in force and the sentences about the others, by Tenant."""
    peerings: dict[str, list[JudgedPeering]] = {name: [] for name in placed}
    missing: dict[str, list[str]] = {name: [] for name in placed}
    reach = {name: _list_prefixes(wishes, name) for name in placed}
    links: dict[str, set[IPv4Network]] = {name: set() for name in placed}
    for name in sorted(placed):
        network = wishes[name].network
        for peer in network.peers if network is not None else ():
            if peer == name:
                missing[name].append(f"{peer}: a network is not its own peer")
                continue
            theirs = wishes[peer].network if peer in placed else None
            # The same sentence whether the peer exists or not: a Tenant learns nothing of others.
            if theirs is None or name not in theirs.peers:
                missing[name].append(f"{peer}: it has not agreed; add {name} to its peers")
            elif name < peer:
                _join_pair(name, peer, wishes, peerings, missing, reach, links)
    return peerings, missing


def _join_pair(
    name: str,
    peer: str,
    wishes: Mapping[str, NetworkWish],
    peerings: dict[str, list[JudgedPeering]],
    missing: dict[str, list[str]],
    reach: dict[str, list[tuple[str, Prefix]]],
    links: dict[str, set[IPv4Network]],
) -> None:
    """Join two networks that agree, unless an address would then have two places."""
    mine = _list_prefixes(wishes, name)
    theirs = _list_prefixes(wishes, peer)
    clashing = _find_clashes(reach[name], theirs) + _find_clashes(reach[peer], mine)
    if clashing:
        sentence = f"overlapping subnets: {', '.join(dict.fromkeys(clashing))}"
        missing[name].append(f"{peer}: {sentence}")
        missing[peer].append(f"{name}: {sentence}")
        return
    link = _choose_link(name, peer, links[name] | links[peer])
    link6 = _derive_link6(link) if _has_ipv6(mine) and _has_ipv6(theirs) else None
    for one, other, far in ((name, peer, theirs), (peer, name, mine)):
        links[one].add(link)
        prefixes = tuple(found for _, found in far if found.version == 4 or link6 is not None)
        peerings[one].append(JudgedPeering(other, link, one == name, prefixes, link6))
        reach[one] += far


def _list_prefixes(wishes: Mapping[str, NetworkWish], name: str) -> list[tuple[str, Prefix]]:
    network = wishes[name].network
    return [(name, one) for one in list_prefixes(network.subnets)] if network is not None else []


def _has_ipv6(prefixes: list[tuple[str, Prefix]]) -> bool:
    return any(prefix.version == 6 for _, prefix in prefixes)


def _derive_link6(link: IPv4Network) -> IPv6Network:
    return IPv6Network((_LINK6_BASE + int(link[0]) - int(LINKS[0]), 126))


def _find_clashes(known: list[tuple[str, Prefix]], added: list[tuple[str, Prefix]]) -> list[str]:
    clashing = []
    for owner, prefix in known:
        for other, far in added:
            if prefix.overlaps(far):
                pair = sorted((f"{owner} {prefix}", f"{other} {far}"))
                clashing.append(" and ".join(pair))
    return clashing


def _choose_link(name: str, peer: str, taken: set[IPv4Network]) -> IPv4Network:
    """Return four addresses for the link of two routers.

    They follow from the two names, so that another peering does not change them. Two routers alone
    see them, so only links of the same router must differ.
    """
    digest = hashlib.sha256(f"{name} {peer}".encode()).digest()
    total = (_LAST_BLOCK - _FIRST_BLOCK + 1) * _LINKS_IN_BLOCK
    start = int.from_bytes(digest[:4], "big") % total
    for step in range(total):
        number = _FIRST_BLOCK * _LINKS_IN_BLOCK + (start + step) % total
        link = IPv4Network((int(LINKS[0]) + 4 * number, 30))
        if link not in taken:
            return link
    raise AssertionError(f"{name} and {peer} have {len(taken)} links, more than there are")
