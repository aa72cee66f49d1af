"""The tables of every room in one metadata. Importing this makes the schema complete."""

from __future__ import annotations

from gpupool.allocations.store import hold_tables as _holds
from gpupool.allocations.store import suspension_tables as _suspensions
from gpupool.allocations.store import tables as _allocations
from gpupool.fleet import tables as _fleet
from gpupool.metering import tables as _metering
from gpupool.network import tables as _networks
from gpupool.network.balancing import proxy_tables as _proxies
from gpupool.network.balancing import tables as _balancing
from gpupool.network.exposing import tables as _exposing
from gpupool.network.firewall import tables as _firewall
from gpupool.network.forwarding import tables as _forwarding
from gpupool.network.limiting import tables as _limiting
from gpupool.network.lines import tables as _lines
from gpupool.network.machines import tables as _machines
from gpupool.network.naming import tables as _naming
from gpupool.network.security import tables as _security
from gpupool.network.verification import tables as _verification
from gpupool.store.tables import metadata
from gpupool.tenancy import tables as _tenancy

ROOMS = (
    _tenancy,
    _networks,
    _machines,
    _security,
    _balancing,
    _proxies,
    _forwarding,
    _firewall,
    _limiting,
    _naming,
    _verification,
    _exposing,
    _lines,
    _fleet,
    _metering,
    _allocations,
    _holds,
    _suspensions,
)

__all__ = ["ROOMS", "metadata"]
