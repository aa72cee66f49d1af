"""The check of addresses after a plan failed for one: the last guard of networks.

Submissions, and all that takes addresses beside jobs, count them. A network that has too few all the
same must not keep the jobs of other tenants from their start.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa

from gpupool.allocations.arrays.references import parse_reference
from gpupool.allocations.store.tables import arrays, claims, jobs
from gpupool.network.ports import count_free_addresses
from gpupool.scheduling import Plan
from gpupool.store.database import WriteTransaction

log = logging.getLogger(__name__)

# Jobs that asked for an address have it since then.
_NEEDS_ONE = sa.and_(claims.c.network_id.is_not(None), claims.c.network_address.is_(None))
_OF_JOBS = (
    sa.select(jobs.c.public_id, claims.c.network_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .where(_NEEDS_ONE, jobs.c.public_id.in_(sa.bindparam("ids", expanding=True)))
)
_OF_ARRAYS = (
    sa.select(arrays.c.public_id, claims.c.network_id)
    .join(claims, claims.c.id == arrays.c.claim_id)
    .where(_NEEDS_ONE, arrays.c.public_id.in_(sa.bindparam("ids", expanding=True)))
)


def admit_addresses(write: WriteTransaction, plan: Plan) -> Plan:
    """Leave out of a plan the jobs for which their network has no address; a gang is left out whole.

    With one, all evictions of the plan are left out: one may be for it.
    """
    if not plan.placements:
        return plan
    found = _read_networks(write, plan)
    wanted: dict[str, Counter[int]] = defaultdict(Counter)
    for placement in plan.placements:
        if placement.job in found:
            wanted[placement.gang or placement.job][found[placement.job]] += 1
    free = {
        network_id: count_free_addresses(write.connection, network_id)
        for network_id in set(found.values())
    }
    left_out = set[str]()
    for unit, counts in wanted.items():
        if any(count > free[network_id] for network_id, count in counts.items()):
            left_out.add(unit)
            continue
        for network_id, count in counts.items():
            free[network_id] -= count
    if not left_out:
        return plan
    log.warning("no address in their networks for %s", ", ".join(sorted(left_out)))
    left = [one for one in plan.placements if (one.gang or one.job) not in left_out]
    return replace(plan, placements=tuple(left), evictions=())


def _read_networks(write: WriteTransaction, plan: Plan) -> Mapping[str, int]:
    """Read the networks of the jobs of a plan that need an address there, by job."""
    names = list[str]()
    members = dict[str, str]()
    for placement in plan.placements:
        reference = parse_reference(placement.job)
        if reference is None:
            names.append(placement.job)
        else:
            members[placement.job] = reference.array
    rows = write.execute(_OF_JOBS, {"ids": names})
    found = {row.public_id: row.network_id for row in rows}
    if members:
        rows = write.execute(_OF_ARRAYS, {"ids": sorted(set(members.values()))})
        by_array = {row.public_id: row.network_id for row in rows}
        for name, array in members.items():
            if array in by_array:
                found[name] = by_array[array]
    return found
