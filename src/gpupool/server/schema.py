"""The tables of every room in one metadata. Importing this makes the schema complete."""

from __future__ import annotations

from gpupool.allocations.faults import tables as _faults
from gpupool.allocations.handover import tables as _handover
from gpupool.allocations.idleness import tables as _idleness
from gpupool.allocations.store import advice_tables as _advice
from gpupool.allocations.store import attempt_table as _attempts
from gpupool.allocations.store import dependency_table as _dependencies
from gpupool.allocations.store import hold_tables as _holds
from gpupool.allocations.store import schedule_tables as _schedules
from gpupool.allocations.store import suspension_tables as _suspensions
from gpupool.allocations.store import tables as _allocations
from gpupool.billing.budgets import tables as _budgets
from gpupool.billing.charging import tables as _charging
from gpupool.billing.documents import tables as _documents
from gpupool.billing.prices import tables as _prices
from gpupool.billing.sealing import tables as _sealing
from gpupool.fleet import tables as _fleet
from gpupool.metering import tables as _metering
from gpupool.metering.energy import tables as _energy
from gpupool.metering.job_use import tables as _job_use
from gpupool.network import tables as _networks
from gpupool.network.balancing import proxy_tables as _proxies
from gpupool.network.balancing import tables as _balancing
from gpupool.network.exposing import tables as _exposing
from gpupool.network.external import tables as _external
from gpupool.network.firewall import tables as _firewall
from gpupool.network.floating import tables as _floating
from gpupool.network.flows import tables as _flows
from gpupool.network.forwarding import tables as _forwarding
from gpupool.network.gateways import tables as _gateways
from gpupool.network.limiting import tables as _limiting
from gpupool.network.lines import tables as _lines
from gpupool.network.machines import tables as _machines
from gpupool.network.mirroring import tables as _mirroring
from gpupool.network.naming import tables as _naming
from gpupool.network.planes import tables as _planes
from gpupool.network.quotas import tables as _network_quotas
from gpupool.network.routing import tables as _routing
from gpupool.network.security import tables as _security
from gpupool.network.verification import tables as _verification
from gpupool.network.zones import tables as _zones
from gpupool.notifications import tables as _notifications
from gpupool.serving import tables as _serving
from gpupool.signon import tables as _signon
from gpupool.signon.scim import tables as _scim
from gpupool.store.secrets import tables as _secrets
from gpupool.store.tables import metadata
from gpupool.templates import tables as _templates
from gpupool.tenancy import tables as _tenancy
from gpupool.tenancy.sessions import tables as _sessions

ROOMS = (
    _secrets,
    _tenancy,
    _signon,
    _scim,
    _sessions,
    _networks,
    _machines,
    _security,
    _balancing,
    _proxies,
    _floating,
    _forwarding,
    _firewall,
    _gateways,
    _limiting,
    _naming,
    _verification,
    _exposing,
    _lines,
    _routing,
    _flows,
    _mirroring,
    _planes,
    _external,
    _zones,
    _network_quotas,
    _fleet,
    _metering,
    _allocations,
    _handover,
    _holds,
    _suspensions,
    _dependencies,
    _advice,
    _attempts,
    _schedules,
    _faults,
    _idleness,
    _job_use,
    _energy,
    _notifications,
    _prices,
    _charging,
    _documents,
    _budgets,
    _sealing,
    _templates,
    _serving,
)

__all__ = ["ROOMS", "metadata"]
