"""Quotas of tenants for objects of networks, as admins set them. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.network.quotas.check import JOBS, KINDS, count_objects, read_quotas
from gpupool.network.quotas.tables import network_quotas
from gpupool.network.tables import networks
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.network.quotas import NetworkQuotaIn, NetworkQuotaOut


class NetworkQuotaService:
    """The quotas of tenants. What is made is checked by `quotas.check`, where it is made."""

    def __init__(self, store: Store, count_jobs: Callable[[sa.Connection, int], int]) -> None:
        """Make the service.

        Args:
            count_jobs: counts the jobs that are in a network or wait for it, by its row id.
        """
        self._store = store
        self._count_jobs = count_jobs
        store.commit_steps["network quotas"] = _delete_of_ended_tenants

    def list_quotas(self, caller: Principal, tenant: str) -> list[NetworkQuotaOut]:
        """List each kind with its quota and what the tenant has. Raises UnknownTenant."""
        with self._store.read() as connection:
            return self._describe(connection, find_tenant(connection, caller, tenant).id)

    def set_quotas(
        self, caller: Principal, tenant: str, body: NetworkQuotaIn
    ) -> list[NetworkQuotaOut]:
        """Set quotas of a tenant; what it has already stays. Raises UnknownTenant."""
        changes = body.model_dump(exclude_unset=True)
        with self._store.write() as write:
            owner = find_tenant(write.connection, caller, tenant)
            for kind, most in changes.items():
                ours = sa.and_(
                    network_quotas.c.tenant_id == owner.id, network_quotas.c.kind == kind
                )
                write.execute(network_quotas.delete().where(ours))
                if most is not None:
                    write.insert(network_quotas, tenant_id=owner.id, kind=kind, most=most)
            if changes:
                write.event("network.quota_set", tenant, tenant_id=owner.id, data=changes)
            out = self._describe(write.connection, owner.id)
            write.answer(200, [one.model_dump(mode="json") for one in out])
        return out

    def _describe(self, connection: sa.Connection, tenant_id: int) -> list[NetworkQuotaOut]:
        quotas = read_quotas(connection, tenant_id)
        shown = []
        for kind in KINDS:
            if kind == JOBS:
                used = count_tenant_jobs(connection, tenant_id, self._count_jobs)
            else:
                used = count_objects(connection, tenant_id, kind)
            shown.append(NetworkQuotaOut(kind=kind, most=quotas.get(kind), used=used))
        return shown


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the quotas of tenants that end in this transaction. Idempotent."""
    ended = find_ended_tenants(write)
    if ended:
        write.execute(network_quotas.delete().where(network_quotas.c.tenant_id.in_(ended)))


def count_tenant_jobs(
    connection: sa.Connection, tenant_id: int, count_jobs: Callable[[sa.Connection, int], int]
) -> int:
    """Count the jobs that are in networks of a tenant, or wait for them.

    Args:
        count_jobs: as of `NetworkQuotaService`.
    """
    query = sa.select(networks.c.id).where(networks.c.tenant_id == tenant_id)
    found = connection.execute(query).scalars().all()
    return sum(count_jobs(connection, network_id) for network_id in found)
