"""Jobs that join a network: what a submission asks for, and whether there are addresses for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.tables import HAS_REST, NOT_MADE, arrays, claims, jobs
from gpupool.allocations.submission.submission import Submission
from gpupool.base.errors import BadAddress, SubnetFull, UnknownNetwork
from gpupool.model.claim import NETWORK_LABEL
from gpupool.model.job import LIVE
from gpupool.network.engine_row import require_ready
from gpupool.network.model import make_vm_mac
from gpupool.network.planes.node_gate import find_default_network, require_no_networks
from gpupool.network.ports import (
    NO_NETWORK,
    choose_beside,
    count_addresses,
    find_default,
    find_network_id,
    find_network_name,
)
from gpupool.network.quotas.check import refuse_jobs_above_quota
from gpupool.network.quotas.service import count_tenant_jobs
from gpupool.network.requested_addresses import check_requested, check_requested6
from gpupool.network.security.membership import find_group_ids, find_group_names
from gpupool.network.zones.reports import require_zone
from gpupool.wire.submissions import LaunchIn

_LIVE_STATES = [str(state) for state in sorted(LIVE)]


def count_network_jobs(connection: sa.Connection, network_id: int) -> int:
    """Count the jobs that are in a network or wait for it."""
    written = (
        sa.select(sa.func.count())
        .select_from(jobs.join(claims, claims.c.id == jobs.c.claim_id))
        .where(claims.c.network_id == network_id, jobs.c.state.in_(_LIVE_STATES))
    )
    # Jobs of an array that have no row yet wait as others do.
    waiting = NOT_MADE.join(claims, claims.c.id == arrays.c.claim_id).where(
        claims.c.network_id == network_id
    )
    return int(connection.execute(written).scalar_one() + connection.execute(waiting).scalar_one())


def count_group_submissions(connection: sa.Connection, network_id: int) -> Counter[int]:
    """Count the live claims of a network that name a security group, by the group's row id."""
    is_live = sa.or_(
        sa.exists().where(jobs.c.claim_id == claims.c.id, jobs.c.state.in_(_LIVE_STATES)),
        # Jobs of an array that have no row yet.
        sa.exists().where(arrays.c.claim_id == claims.c.id, HAS_REST),
    )
    query = sa.select(claims.c.security_groups).where(claims.c.network_id == network_id, is_live)
    found = Counter[int]()
    for groups in connection.execute(query).scalars():
        found.update(groups or ())
    return found


def is_network_wanted(connection: sa.Connection, tenant_id: int, launch: LaunchIn) -> bool:
    """Whether jobs of a tenant with that launch join a network, named or by default.

    Raises:
        UnknownNetwork: the tenant has no such network.
        NetworkingUnavailable: networking is off, or its engine cannot work.
        WrongState: they join none, and planes of the tenant need one.
    """
    if launch.network is None and launch.vm is None:
        # Most jobs: one statement asks for the default network and for planes that need one.
        name = find_default_network(connection, tenant_id)
    else:
        named = None if launch.network is None else launch.network.model_dump()
        vm = None if launch.vm is None else launch.vm.model_dump()
        wanted = _choose_wanted(connection, tenant_id, {"network": named, "vm": vm})
        name = None if wanted is None else wanted["name"]
        if name is None:
            require_no_networks(connection, tenant_id)
    if name is None:
        return False
    network_id = find_network_id(connection, tenant_id, name)
    require_ready(connection)
    require_zone(connection, network_id)
    return True


def find_network_columns(connection: sa.Connection, submission: Submission) -> dict[str, Any]:
    """Find the network of a submission, as columns of its claims; none without one.

    Every job that may run has an address for certain, so that a job that is placed never waits for
    one.

    Raises:
        UnknownNetwork: the tenant has no such network, or the network no such security group.
        NetworkingUnavailable: networking is off, or its engine cannot work.
        SubnetFull: there are fewer addresses than jobs.
        BadAddress, AddressTaken: no job, or another one, may have the address that it asks for.
    """
    if NETWORK_LABEL not in submission.shape.labels:
        # Checked as a job without a network, so it may run where no engine is ready. A default
        # network that was made meanwhile is for jobs that come later.
        return {}
    wanted = _choose_wanted(connection, submission.tenant_id, submission.launch)
    if wanted is None:
        return {}
    network_id = find_network_id(connection, submission.tenant_id, wanted["name"])
    require_ready(connection)
    require_zone(connection, network_id)
    present = count_tenant_jobs(connection, submission.tenant_id, count_network_jobs)
    refuse_jobs_above_quota(connection, submission.tenant_id, present, submission.size)
    addresses = count_addresses(connection, network_id)
    others = count_network_jobs(connection, network_id)
    if others + submission.size > addresses:
        raise SubnetFull(
            f"network {wanted['name']} has {addresses} addresses for jobs; {others} jobs have one "
            f"or wait for one, and this asks for {submission.size} more",
            hint=f"add a subnet: gpupool network subnet-create {wanted['name']} --cidr PREFIX",
            addresses=addresses,
            jobs=others,
        )
    names = wanted.get("security_groups") or ()
    groups = find_group_ids(connection, network_id, wanted["name"], names)
    columns: dict[str, Any] = {"network_id": network_id, "security_groups": groups or None}
    columns |= _find_addresses(connection, submission, network_id, wanted)
    vm = submission.launch.get("vm")
    if vm:
        columns["network_mac"] = make_vm_mac(vm.get("identity") or submission.public_ids[0])
    return columns


def _find_addresses(
    connection: sa.Connection, submission: Submission, network_id: int, wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """Find the addresses that a submission asks for, as columns of its claim."""
    text = wanted.get("address")
    text6 = wanted.get("address6")
    if text is None and text6 is None:
        return {}
    if submission.size > 1:
        raise BadAddress(
            f"one address for {submission.size} jobs: {(text or text6 or '')[:60]}",
            hint="leave out --address; jobs of an array or a gang find each other by name",
        )
    address = None if text is None else check_requested(connection, network_id, text)
    if text6 is None:
        return {"network_address": str(address)}
    address6, subnet = check_requested6(connection, network_id, text6)
    if address is None:
        # Reserved with it: another subnet's would not do, and a grant never waits for an address.
        address = choose_beside(connection, subnet)
    elif address not in IPv4Network(subnet.cidr):
        raise BadAddress(
            f"{address6} is of subnet {subnet.name}, and {address} is not",
            hint=f"ask for addresses of one subnet: {subnet.cidr} and {subnet.cidr6}",
        )
    return {"network_address": str(address), "network_address6": str(address6)}


def _choose_wanted(
    connection: sa.Connection, tenant_id: int, launch: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return what a launch names, or else its tenant's default network."""
    named: Mapping[str, Any] | None = launch.get("network")
    if named:
        return None if named["name"] == NO_NETWORK else named
    vm = launch.get("vm")
    if vm:
        # Its guest has QEMU's own network where none is named.
        return _find_earlier(connection, tenant_id, vm.get("continues"))
    default = find_default(connection, tenant_id)
    return None if default is None else {"name": default}


def _find_earlier(
    connection: sa.Connection, tenant_id: int, job: str | None
) -> Mapping[str, Any] | None:
    """Return what a VM that is continued named when it started before.

    Raises:
        UnknownNetwork: its network or a group of it was deleted: without them it would reach more.
    """
    query = (
        sa.select(claims)
        .join(jobs, jobs.c.claim_id == claims.c.id)
        .where(jobs.c.public_id == job, jobs.c.tenant_id == tenant_id)
    )
    earlier = None if job is None else connection.execute(query).one_or_none()
    if earlier is None or earlier.network_mac is None:
        return None
    name = find_network_name(connection, earlier.network_id)
    groups = find_group_names(connection, earlier.network_id, earlier.security_groups or ())
    if name is None or len(groups) < len(earlier.security_groups or ()):
        raise UnknownNetwork(
            f"the network of VM {job} was deleted, or a security group of it",
            hint="name another: gpupool vm start VM --network NAME, or --network none",
        )
    return {
        "name": name,
        "security_groups": groups,
        "address": earlier.network_address,
        "address6": earlier.network_address6,
    }
