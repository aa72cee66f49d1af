"""Translation of prefixes on a dedicated line, for a company with the same addresses. Pure.

Each of two prefixes of one length is the other one on the other side, address by address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from gpupool.base.errors import BadAddress, OverlappingSubnets
from gpupool.network.addresses import parse_prefix


@dataclass(frozen=True)
class Translation:
    """A prefix that has other addresses on the other side of a line.

    Attributes:
        inside: as jobs of the network see it.
        outside: as hosts of the company see it.
    """

    inside: IPv4Network
    outside: IPv4Network


def see_inside(prefix: IPv4Network, translations: Iterable[Translation]) -> IPv4Network:
    """Return how jobs see a prefix of the company's side; what no translation has stays."""
    for one in translations:
        if prefix.subnet_of(one.outside):
            return _move(prefix, one.outside, one.inside)
    return prefix


def see_outside(prefix: IPv4Network, translations: Iterable[Translation]) -> IPv4Network:
    """Return how the company sees a prefix of the network's side; what no translation has stays."""
    for one in translations:
        if prefix.subnet_of(one.inside):
            return _move(prefix, one.inside, one.outside)
    return prefix


def _move(prefix: IPv4Network, origin: IPv4Network, target: IPv4Network) -> IPv4Network:
    offset = int(prefix.network_address) - int(origin.network_address)
    return IPv4Network((target.network_address + offset, prefix.prefixlen))


def parse_translations(
    pairs: Iterable[tuple[str, str]], option: str
) -> tuple[tuple[IPv4Network, IPv4Network], ...]:
    """Parse pairs of a prefix and what it becomes on the other side.

    Raises:
        BadAddress: of no prefix, or two of unequal length.
        OverlappingSubnets: two pairs share addresses.
    """
    found = list[tuple[IPv4Network, IPv4Network]]()
    for own, other in pairs:
        origin = parse_prefix(own)
        target = parse_prefix(other)
        if origin.prefixlen != target.prefixlen:
            raise BadAddress(
                f"{option}: {origin} has {origin.prefixlen} bits and {target} "
                f"{target.prefixlen}; a translation has equal ones",
                hint=f"write it like {option} {origin}={target.network_address}/{origin.prefixlen}",
            )
        found.append((origin, target))
    for side in range(2):
        _check_disjoint([pair[side] for pair in found], option)
    return tuple(found)


def _check_disjoint(prefixes: Sequence[IPv4Network], option: str) -> None:
    for index, one in enumerate(prefixes):
        clashing = [str(other) for other in prefixes[:index] if other.overlaps(one)]
        if clashing:
            raise OverlappingSubnets(
                f"{option}: {one} overlaps {', '.join(clashing)} of another translation",
                hint="give each prefix addresses of its own",
                clashing=clashing,
            )


def check_origins(
    origins: Iterable[IPv4Network], present: Sequence[IPv4Network], option: str, what: str
) -> None:
    """Raise BadAddress where something else would be translated than what is there.

    Args:
        what: how people call what is there.
    """
    for origin in origins:
        if origin not in present:
            raise BadAddress(
                f"{option}: {origin} is not of {what}: {', '.join(map(str, present))}",
                hint="name one of them with its whole prefix",
            )
