"""Deletes what belongs to a network with it. Runs in the caller's transaction."""

from __future__ import annotations

from typing import Any

from gpupool.network.balancing.service import delete_balancers
from gpupool.network.firewall.tables import firewall_rules
from gpupool.network.floating.tables import floating_ips
from gpupool.network.flows.records import delete_flow_logs
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.gateways.tables import network_gateway_drills
from gpupool.network.limiting.tables import bandwidth_limits
from gpupool.network.lines.service import delete_lines
from gpupool.network.naming.service import delete_records
from gpupool.network.peerings import delete_peerings
from gpupool.network.routing.tables import network_routes
from gpupool.network.security.membership import delete_groups
from gpupool.network.tables import subnets
from gpupool.network.verification.tables import network_verifications
from gpupool.store.write_transaction import WriteTransaction


def delete_parts(write: WriteTransaction, network: Any) -> None:
    """Delete the parts of a network that is about to go.

    Args:
        network: its row.
    """
    delete_peerings(write, network)
    delete_groups(write, network.id)
    delete_balancers(write, network.id)
    delete_records(write, network.id)
    delete_lines(write, network)
    delete_flow_logs(write, network.id)
    # The last are the subnets, which others refer to.
    for table in (
        bandwidth_limits,
        network_verifications,
        network_gateway_drills,
        port_forwards,
        floating_ips,
        firewall_rules,
        network_routes,
        subnets,
    ):
        write.execute(table.delete().where(table.c.network_id == network.id))
