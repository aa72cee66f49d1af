"""What would be different: the pool's present state played forward, with a change and without. Writes nothing.

The deciding is `simulation.whatif`'s; here a change is checked against the pool, and an answer cut down to what its
asker may see: everybody the pool's totals, a tenant's own numbers its people, all of them an admin.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from gpupool.allocations.answering import service, while_connected
from gpupool.allocations.service import Allocations
from gpupool.allocations.user_turns import UserTurns
from gpupool.base.errors import NotFound, Refused, Unavailable, UnknownModel, UnknownTenant
from gpupool.base.units import MIB, format_gpu
from gpupool.model.catalogue import CATALOGUE, find_model, nearest_model
from gpupool.model.quota import GPU
from gpupool.model.tenant import Permission, Principal
from gpupool.scheduling import kernel
from gpupool.scheduling.policies import named
from gpupool.scheduling.snapshot import Snapshot
from gpupool.simulation.aside import COMMAND, MOST_SECONDS, Question, answered, asked
from gpupool.simulation.trace import NS, Node
from gpupool.simulation.whatif import Change, Forecast, Queue
from gpupool.tenancy.access import require
from gpupool.tenancy.turns import waiting_aside
from gpupool.wire.planning import AddIn, ForecastOut, ForecastQueueOut, WhatIfIn, WhatIfOut

#: A forecast holds each waiting job by itself, about 380 bytes each; in the queue an array of 1,000,000 is one row.
MOST_WAITING = 2_000_000
#: Cards.
MOST_ADDED = 100_000

router = APIRouter(tags=["planning"])
_one = asyncio.Lock()
"""One at a time: it is all computing, and the pool itself has to go on."""
_turns = UserTurns()
"""A user who asks for many forecasts at once is one of those who wait for `_one`, and has one snapshot made."""


@router.post("/whatif")
async def whatif(
    request: Request,
    body: WhatIfIn,
    allocations: Annotated[Allocations, Depends(service)],
    caller: Annotated[Principal, Depends(require(Permission.READ))],
) -> WhatIfOut:
    """What the queue would come to with other nodes, another policy or other quotas. Changes nothing."""
    async with waiting_aside(request):  # a process of its own computes it
        return await while_connected(request, foretold(body, allocations, caller))


async def foretold(body: WhatIfIn, allocations: Allocations, caller: Principal) -> WhatIfOut:
    """The answer, computed in a process of its own, which ends with whoever waits for it."""
    async with _turns.turn_of(caller.user_id):
        question = await asyncio.to_thread(_question, body, allocations, caller)
        async with _one:
            before, after = answered(await _computed(asked(question)))
    return WhatIfOut(before=_out(before, caller), after=_out(after, caller))


def _question(body: WhatIfIn, allocations: Allocations, caller: Principal) -> Question:
    snapshot, now_ns = allocations.placer.seen(), allocations.store.clock.now_ns()
    changes = Change(), checked(body, snapshot, caller)
    tallies = allocations.placer.planner.told.tallies()
    return Question(snapshot, changes, now_ns, body.horizon_seconds * NS, kernel.adopted(), tallies)


async def _computed(question: bytes) -> bytes:
    """Raises Unavailable where it takes too long, or the process was ended by somebody else."""
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE)
    try:
        said, _ = await asyncio.wait_for(process.communicate(question), MOST_SECONDS)
    except TimeoutError:
        said = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode or not said:
        raise Unavailable(f"no forecast within {MOST_SECONDS} seconds", hint="ask for a nearer one: --horizon 4h")
    return said


def checked(body: WhatIfIn, snapshot: Snapshot, caller: Principal) -> Change:
    """The change, if this pool can have it. Raises UnknownModel, UnknownPolicy, NotFound, UnknownTenant, Refused."""
    _check_size(body, snapshot)
    if body.policy is not None:
        named(body.policy)
    nodes = snapshot.cards.nodes
    for name in body.remove:
        if name not in nodes:
            raise NotFound(f"there is no node {name} in this pool", hint=f"it has: {', '.join(nodes[:8]) or 'none'}")
    if nodes and set(body.remove) == set(nodes) and not body.add:
        raise Refused(f"without its {len(nodes)} nodes the pool has no card left", hint="leave one, or --add others")
    _check_quotas(body.nominal_milli, snapshot, caller)
    return Change(tuple(_nodes(body, nodes)), tuple(body.remove), body.policy, dict(body.nominal_milli))


def _check_size(body: WhatIfIn, snapshot: Snapshot) -> None:
    added = sum(add.nodes * add.cards for add in body.add)
    if added > MOST_ADDED:
        raise Refused(f"{added} cards are added, and a forecast adds {MOST_ADDED} at most", hint="add fewer")
    waiting = sum(entry.count for entry in snapshot.waiting)
    if waiting > MOST_WAITING:
        raise Refused(
            f"{waiting} jobs wait, and a forecast looks at {MOST_WAITING} at most",
            hint="ask again when fewer wait; gpupool queue tells what waits now",
        )


def _nodes(body: WhatIfIn, taken: tuple[str, ...]) -> Iterator[Node]:
    number = 0
    for add in body.add:
        cards = ((_model(add)),) * add.cards
        for _ in range(add.nodes):
            number += 1
            name = f"added-{number}"
            yield Node(name if name not in taken else f"added-{number}'", cards)


def _model(add: AddIn) -> tuple[str, int]:
    known = find_model(add.model, CATALOGUE)
    if add.memory_bytes is not None:
        return known or add.model, add.memory_bytes
    if known is None:
        near = nearest_model(add.model, CATALOGUE)
        hint = (f"did you mean {near}?  " if near else "") + "or give memory_bytes"
        raise UnknownModel(f"no card model is named {add.model!r}, so its memory is not known", hint=hint)
    return known, CATALOGUE[known].memory_mib * MIB


def _check_quotas(wanted: Mapping[str, int], snapshot: Snapshot, caller: Principal) -> None:
    for name in wanted:
        if name not in snapshot.tenants or not (caller.sees_all or name == caller.tenant):
            raise UnknownTenant(f"there is no tenant {name}", hint="gpupool tenant list")
    parents = {snapshot.tenants[name].cohort for name in wanted} - {None}
    for parent in sorted(filter(None, parents)):
        _check_parent(parent, wanted, snapshot)


def _check_parent(parent: str, wanted: Mapping[str, int], snapshot: Snapshot) -> None:
    """The nominal parts below a cohort are together at most its own."""
    branch = snapshot.cohorts.get(parent)
    limit = branch and branch.quota.limits.get(GPU)
    if not limit or limit.nominal is None:
        return
    below = {name: view.quota.nominal_milli or 0 for name, view in snapshot.tenants.items() if view.cohort == parent}
    cohorts = (one.quota.nominal_milli or 0 for one in snapshot.cohorts.values() if one.parent == parent)
    promised = sum((below | {name: wanted[name] for name in below if name in wanted}).values()) + sum(cohorts)
    if promised > limit.nominal:
        raise Refused(
            f"below {parent} {format_gpu(promised)} GPU would be guaranteed, of its own {format_gpu(limit.nominal)}",
            hint="give less, or raise what is above first",
        )


def _out(found: Forecast, caller: Principal) -> ForecastOut:
    seen = {name: queue for name, queue in found.tenants.items() if caller.sees_all or name == caller.tenant}
    return ForecastOut(
        nodes=found.nodes,
        cards=found.cards,
        queue=_queue(found.queue),
        tenants={name: _queue(queue) for name, queue in seen.items() if queue.waiting},
        allocation_now_pct=found.allocation_now_pct,
        allocation_pct=found.allocation_pct,
        largest_milli=found.largest_milli,
        whole_nodes=found.whole_nodes,
        evictions=found.evictions,
        no_end=found.no_end,
        moved=found.moved,
        horizon_seconds=round(found.horizon_ns / NS, 3),
    )


def _queue(queue: Queue) -> ForecastQueueOut:
    return ForecastQueueOut(
        waiting=queue.waiting,
        start_now=queue.start_now,
        start_later=queue.start_later,
        promised=queue.promised,
        estimated=queue.estimated,
        estimate_chance_pct=queue.chance_pct,
        wait_p50_seconds=queue.waits.p50,
        wait_p95_seconds=queue.waits.p95,
    )
