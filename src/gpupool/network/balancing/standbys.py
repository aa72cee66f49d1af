"""Second proxies of load balancers of HTTP, where a pair of machines has the gateways.

The functions run in the caller's transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from ipaddress import IPv4Address
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import SubnetFull
from gpupool.base.ids import new_id
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.gateways.reading import read_pair_row
from gpupool.network.lookup import CountJobs
from gpupool.network.ports import choose_beside, count_addresses
from gpupool.network.tables import networks, subnets
from gpupool.store.write_transaction import WriteTransaction

log = logging.getLogger(__name__)


def choose_standby(write: WriteTransaction, subnet: Any, address: IPv4Address) -> dict[str, str]:
    """Choose id and address of a new load balancer's second proxy; nothing without a pair.

    Args:
        subnet: the row of the subnet of its first proxy.
        address: that of its first proxy.

    Raises SubnetFull.
    """
    if read_pair_row(write.connection) is None:
        return {}
    return _choose(write, subnet, address)


def add_standbys(write: WriteTransaction, count_jobs: CountJobs) -> None:
    """Give each load balancer of HTTP its second proxy: a pair has the gateways from now on.

    One whose subnet has no address left that no job needs stays on the first machine alone. Idempotent.
    """
    query = (
        sa.select(http_balancers.c.balancer_id, load_balancers.c.network_id, subnets)
        .join(load_balancers, load_balancers.c.id == http_balancers.c.balancer_id)
        .join(subnets, subnets.c.id == http_balancers.c.subnet_id)
        .where(http_balancers.c.standby_id.is_(None))
        .order_by(http_balancers.c.balancer_id)
    )
    for row in write.execute(query).all():
        addresses = count_addresses(write.connection, row.network_id)
        if count_jobs(write.connection, row.network_id) >= addresses:
            log.warning("load balancer %s has one proxy: jobs need all addresses", row.balancer_id)
            continue
        try:
            values = _choose(write, row)
        except SubnetFull as error:
            log.warning("load balancer %s has one proxy: %s", row.balancer_id, error.message)
            continue
        ours = http_balancers.c.balancer_id == row.balancer_id
        write.execute(http_balancers.update().where(ours).values(**values))
        write.announce(("network", row.network_id))


def remove_standbys(write: WriteTransaction) -> None:
    """Take the second proxies away: one machine has the gateways from now on. Idempotent."""
    query = (
        sa.select(load_balancers.c.network_id)
        .join(http_balancers, http_balancers.c.balancer_id == load_balancers.c.id)
        .where(http_balancers.c.standby_id.is_not(None))
        .distinct()
    )
    for network_id in write.execute(query).scalars().all():
        write.announce(("network", network_id))
    write.execute(http_balancers.update().values(standby_id=None, standby_address=None))


def note_moves(write: WriteTransaction, agent: str, keys: Collection[str]) -> None:
    """Record that load balancers are answered by another machine.

    Args:
        keys: public ids of the proxies of its machine that serve now and stood by before.
    """
    if not keys:
        return
    proxies = http_balancers.c
    query = (
        sa.select(load_balancers.c.name, networks.c.name.label("network"), networks.c.public_id)
        .add_columns(networks.c.tenant_id)
        .join(http_balancers, proxies.balancer_id == load_balancers.c.id)
        .join(networks, networks.c.id == load_balancers.c.network_id)
        .where(sa.or_(proxies.public_id.in_(keys), proxies.standby_id.in_(keys)))
        .order_by(load_balancers.c.id)
    )
    for row in write.execute(query).all():
        data = {"network": row.public_id, "load_balancer": row.name, "node": agent}
        write.event("network.lb_moved", row.network, tenant_id=row.tenant_id, data=data)


def _choose(
    write: WriteTransaction, subnet: Any, address: IPv4Address | None = None
) -> dict[str, str]:
    taken = () if address is None else (address,)
    chosen = choose_beside(write.connection, subnet, taken)
    return {"standby_id": new_id("h"), "standby_address": str(chosen)}
