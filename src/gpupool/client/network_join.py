"""The network that the jobs of a submission join, as a request names it."""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.base.ids import check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def make_network_join(
    network: str | None, security_groups: Sequence[str], address: str | None = None
) -> dict[str, Any]:
    """Make a `wire.networks.NetworkJoinIn`. Raises BadName and BadOption."""
    if network is None:
        if security_groups:
            raise BadOption(
                f"security group {security_groups[0][:80]} without a network",
                hint="a security group belongs to a network: --network NAME",
            )
        raise BadOption(
            f"address {(address or '')[:60]} without a network",
            hint="an address belongs to a network: --network NAME",
        )
    joined: dict[str, Any] = {"name": check_name(network, "network name")}
    if security_groups:
        joined["security_groups"] = [
            check_name(group, "name of a security group") for group in security_groups
        ]
    if address is not None:
        joined |= _split_addresses(address)
    return joined


def _split_addresses(text: str) -> dict[str, Any]:
    """Split `10.0.0.20`, an IPv6 address, or both with a comma. Raises BadOption."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key = "address6" if ":" in part else "address"
        if key in found:
            raise BadOption(
                f"two addresses of one kind: {text[:90]!r}",
                hint="name one IPv4 address, one IPv6 address, or both with a comma",
            )
        found[key] = part
    return found
