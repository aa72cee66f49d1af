"""Every room's tables in one metadata. Importing this is what makes the schema complete."""

from __future__ import annotations

from gpupool.allocations import tables as _allocations
from gpupool.fleet import tables as _fleet
from gpupool.metering import tables as _metering
from gpupool.store.tables import metadata
from gpupool.tenancy import tables as _tenancy

ROOMS = (_tenancy, _fleet, _metering, _allocations)

__all__ = ["ROOMS", "metadata"]
