"""Bandwidth limits as the owners of networks set them, within what admins allow. Thread-safe."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import (
    BandwidthAboveCap,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.base.ids import new_id
from gpupool.base.units import format_bandwidth
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_machines
from gpupool.network.limiting.model import UNLIMITED, Bandwidth, LimitSubject
from gpupool.network.limiting.reading import describe_limits, make_bandwidth_in, read_caps
from gpupool.network.limiting.tables import bandwidth_caps, bandwidth_limits
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.network.tables import networks
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.network.promises import BandwidthIn, BandwidthLimitIn, BandwidthLimitsOut

#: Limits of one network, at most.
MOST_LIMITS = 256


class BandwidthLimitService:
    """Bandwidth limits of networks, and caps of tenants."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network
        store.commit_steps["bandwidth caps"] = _delete_of_ended_tenants

    def list_limits(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> BandwidthLimitsOut:
        """List the limits of a network, and how ports and gateway stand. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_limits(connection, self._find_network(connection, caller, name, tenant))

    def set_limit(
        self, caller: Principal, name: str, body: BandwidthLimitIn, tenant: str | None = None
    ) -> BandwidthLimitsOut:
        """Set a limit of a network. It holds for jobs that run, and for those that start later.

        Idempotent; the limit of the same subject is replaced, in both directions.

        Raises:
            UnknownNetwork: `name` is no network of the caller.
            WrongState: it names no bandwidth, or a job for a gateway.
            BandwidthAboveCap: it is more than an admin allows the tenant.
            TooManyNetworks: the network has as many limits as it may.
        """
        wanted = Bandwidth(body.in_kbit, body.out_kbit)
        if not wanted:
            raise WrongState(
                "a limit needs a bandwidth for one direction at least",
                hint="write it like --in 20M --out 20M, or delete the limit",
            )
        if body.subject == "gateway" and body.target is not None:
            raise WrongState(
                "a limit is about a gateway or about a job",
                hint="leave out --gateway or --job",
            )
        target = "" if body.target is None else make_target(body.target)
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            cap = read_caps(write.connection).get((network.tenant_id, body.subject), UNLIMITED)
            _refuse_above(wanted, cap)
            self._replace(write, network, body.subject, target, wanted)
            _finish(write, "set", network, body.subject, target)
            out = describe_limits(write.connection, network)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def _replace(
        self,
        write: WriteTransaction,
        network: Any,
        subject: LimitSubject,
        target: str,
        wanted: Bandwidth,
    ) -> None:
        ours = _match(network.id, subject, target)
        values = {"in_kbit": wanted.in_kbit, "out_kbit": wanted.out_kbit}
        if write.execute(bandwidth_limits.update().where(ours).values(**values)).rowcount:
            return
        query = sa.select(sa.func.count()).where(bandwidth_limits.c.network_id == network.id)
        count = int(write.execute(query).scalar_one())
        if count >= MOST_LIMITS:
            raise TooManyNetworks(
                f"network {network.name} has {count} bandwidth limits; {MOST_LIMITS} is the most",
                hint=f"gpupool network limit-list {network.name}",
                limit=MOST_LIMITS,
            )
        write.insert(
            bandwidth_limits,
            public_id=new_id("w"),
            network_id=network.id,
            subject=subject,
            target=target,
            created_ns=write.now_ns,
            **values,
        )

    def delete_limit(
        self, caller: Principal, name: str, limit: str, tenant: str | None = None
    ) -> None:
        """Delete a limit; what is less narrow holds then. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            ours = sa.and_(
                bandwidth_limits.c.network_id == network.id, bandwidth_limits.c.public_id == limit
            )
            gone = write.execute(
                bandwidth_limits.delete()
                .where(ours)
                .returning(bandwidth_limits.c.subject, bandwidth_limits.c.target)
            ).one_or_none()
            if gone is None:
                raise UnknownNetwork(
                    f"network {network.name} has no bandwidth limit {limit[:80]!r}",
                    hint=f"gpupool network limit-list {network.name}",
                )
            _finish(write, "deleted", network, gone.subject, gone.target)
            write.answer(204, None)

    def get_cap(self, caller: Principal, tenant: str, subject: LimitSubject) -> BandwidthIn:
        """Return what each port or gateway of a tenant may have at most. Raises UnknownTenant."""
        with self._store.read() as connection:
            owner = find_tenant(connection, caller, tenant)
            return make_bandwidth_in(read_caps(connection).get((owner.id, subject), UNLIMITED))

    def set_cap(
        self, caller: Principal, tenant: str, subject: LimitSubject, body: BandwidthIn
    ) -> BandwidthIn:
        """Set what each port or gateway of a tenant may have at most. Idempotent.

        It holds at once, also for ports that have no limit or a higher one. Raises UnknownTenant.
        """
        wanted = Bandwidth(body.in_kbit, body.out_kbit)
        with self._store.write() as write:
            owner = find_tenant(write.connection, caller, tenant)
            ours = sa.and_(
                bandwidth_caps.c.tenant_id == owner.id, bandwidth_caps.c.subject == subject
            )
            write.execute(bandwidth_caps.delete().where(ours))
            if wanted:
                write.insert(
                    bandwidth_caps,
                    tenant_id=owner.id,
                    subject=subject,
                    in_kbit=wanted.in_kbit,
                    out_kbit=wanted.out_kbit,
                )
            data = {"subject": subject, "in_kbit": wanted.in_kbit, "out_kbit": wanted.out_kbit}
            write.event("network.cap_set", owner.name, tenant_id=owner.id, data=data)
            _renew_networks(write, owner.id)
            out = make_bandwidth_in(wanted)
            write.answer(200, out.model_dump(mode="json"))
        return out


def _renew_networks(write: WriteTransaction, tenant_id: int) -> None:
    """Let agents enforce other caps in the networks of a tenant."""
    renew_machines(write)
    query = sa.select(networks.c.id).where(networks.c.tenant_id == tenant_id)
    write.announce(*(("network", key) for key in write.execute(query).scalars()))


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the caps of tenants that end in this transaction. Idempotent."""
    for tenant_id in find_ended_tenants(write):
        ours = bandwidth_caps.c.tenant_id == tenant_id
        if write.execute(bandwidth_caps.delete().where(ours)).rowcount:
            _renew_networks(write, tenant_id)


def make_target(job: str) -> str:
    """Make the target of a limit from the name of a job, an array, a gang or a member of one.

    The member `train.0` has the DNS name `train-0.train` in the network.
    """
    member = re.fullmatch(r"(.+)\.([0-9]+)", job)
    return make_dns_name(job if member is None else f"{member[1]}-{member[2]}")


def _match(network_id: int, subject: LimitSubject, target: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        bandwidth_limits.c.network_id == network_id,
        bandwidth_limits.c.subject == subject,
        bandwidth_limits.c.target == target,
    )


def _refuse_above(wanted: Bandwidth, cap: Bandwidth) -> None:
    for word, asked, most in (
        ("in", wanted.in_kbit, cap.in_kbit),
        ("out", wanted.out_kbit, cap.out_kbit),
    ):
        if asked is not None and most is not None and asked > most:
            raise BandwidthAboveCap(
                f"{format_bandwidth(asked)} {word} is more than the {format_bandwidth(most)} "
                "that an admin allows",
                hint="ask for less, or an admin for more: gpupool network limit-cap TENANT",
                limit=most,
            )


def _finish(
    write: WriteTransaction, what: str, network: Any, subject: LimitSubject, target: str
) -> None:
    data = {"network": network.public_id, "subject": subject, "target": target}
    write.event(f"network.limit_{what}", network.name, tenant_id=network.tenant_id, data=data)
    renew_machines(write)
    write.announce(("network", network.id))
