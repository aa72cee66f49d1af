"""Quotas of tenants for objects of networks: what an admin sets, and what tenants see."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupool.wire.common import WireModel

_Most = Annotated[int | None, Field(ge=0, le=1_000_000)]


class NetworkQuotaIn(WireModel):
    """What a tenant may have at most in all of its networks. A field that is left out stays as it
    is; null ends that quota.
    """

    networks: _Most = None
    gateways: _Most = None
    load_balancers: _Most = None
    port_forwards: _Most = None
    floating_ips: _Most = None
    lines: _Most = None
    peerings: _Most = Field(None, description="that it asked for")
    security_groups: _Most = None
    jobs: _Most = Field(None, description="that are in networks, or wait for them")


def name_kind(kind: str) -> str:
    """Name a field of `NetworkQuotaIn` for people.

    >>> name_kind("floating_ips")
    'floating IPs'
    """
    return kind.replace("_", " ").replace("ips", "IPs")


class NetworkQuotaOut(WireModel):
    """One kind of objects of a tenant."""

    kind: str
    most: int | None = Field(description="null: no quota; limits of each network remain")
    used: int
