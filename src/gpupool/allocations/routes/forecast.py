"""Routes of forecasts: plays the pool's present state forward, with a change and without it.

`simulation.studies.whatif` computes the forecast. This module checks the change against the pool,
and shows the pool's totals to every caller, a tenant's numbers to its users, and all numbers to an
admin. It writes nothing.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping
from typing import Annotated

from fastapi import Depends, Request

from gpupool.allocations.routes.dependencies import service, wait_while_connected
from gpupool.allocations.service import Allocations
from gpupool.allocations.services.capacity_costs import CapacityCosts
from gpupool.allocations.submission.user_queue import UserQueue
from gpupool.api.late_routes import Router
from gpupool.base.errors import (
    NotFound,
    RequestRejection,
    ServiceUnavailable,
    UnknownModel,
    UnknownTenant,
)
from gpupool.base.units import MIB, NANOS_PER_SECOND, format_gpu
from gpupool.model.catalogue import CATALOGUE, find_model, nearest_model
from gpupool.model.claim import SharingKind
from gpupool.model.quota import GPU
from gpupool.model.tenant import Permission, Principal
from gpupool.scheduling import Snapshot, find_policy, get_native_library_path
from gpupool.simulation.forecast_worker import (
    COMMAND,
    MOST_SECONDS,
    ForecastQuestion,
    decode_forecasts,
    encode_question,
)
from gpupool.simulation.studies.whatif import PoolChange, PoolForecast, QueueForecast
from gpupool.simulation.traces.trace import TraceNode
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.turns import give_turn_aside
from gpupool.wire.planning import AddIn, ForecastOut, ForecastQueueOut, WhatIfIn, WhatIfOut

#: A forecast holds each waiting job by itself, about 380 bytes each; in the queue an array of
#: 1,000,000 is one row.
MOST_WAITING = 2_000_000
#: Cards.
MOST_ADDED = 100_000

router = Router(tags=["planning"])
#: One at a time: it is all computing, and the pool itself has to go on.
_one = asyncio.Lock()
#: A user who asks for many forecasts at once is one of those who wait for `_one`, and has one
#: snapshot made.
_turns = UserQueue()


@router.post("/whatif")
async def whatif(
    request: Request,
    body: WhatIfIn,
    allocations: Annotated[Allocations, Depends(service)],
    caller: Annotated[Principal, Depends(require_caller(Permission.READ))],
) -> WhatIfOut:
    """What the queue would come to with other nodes, another policy, sharing or other quotas. Changes
    nothing."""
    async with give_turn_aside(request):  # a process of its own computes it
        return await wait_while_connected(request, answer_question(body, allocations, caller))


async def answer_question(body: WhatIfIn, allocations: Allocations, caller: Principal) -> WhatIfOut:
    """Compute the answer in a process of its own, which ends with the request."""
    async with _turns.wait_turn(caller.user_id):
        question = await asyncio.to_thread(_build_question, body, allocations, caller)
        async with _one:
            before, after = decode_forecasts(await _compute_answer(encode_question(question)))
    costs = CapacityCosts(allocations.store)
    sides = [
        await asyncio.to_thread(costs.add_cost, _build_answer(side, caller), side.models)
        for side in (before, after)
    ]
    return WhatIfOut(before=sides[0], after=sides[1].model_copy(update={"sharing": body.sharing}))


def _build_question(
    body: WhatIfIn, allocations: Allocations, caller: Principal
) -> ForecastQuestion:
    snapshot = allocations.placer.take_snapshot()
    now_ns = allocations.store.clock.now_ns()
    changes = PoolChange(), check_change(body, snapshot, caller)
    tallies = allocations.placer.planner.start_records.copy_tallies()
    return ForecastQuestion(
        snapshot,
        changes,
        now_ns,
        body.horizon_seconds * NANOS_PER_SECOND,
        get_native_library_path(),
        tallies,
    )


async def _compute_answer(question: bytes) -> bytes:
    """Run the process on a question.

    Raises:
        ServiceUnavailable: It takes too long, or the process was killed.
    """
    # A process and not a thread: it computes for seconds, and the server's threads must go on.
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE)
    try:
        answer, _ = await asyncio.wait_for(process.communicate(question), MOST_SECONDS)
    except TimeoutError:
        answer = b""
    finally:
        # Also when the request was cancelled, because its client has gone.
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode or not answer:
        raise ServiceUnavailable(
            f"no forecast within {MOST_SECONDS} seconds", hint="ask for a nearer one: --horizon 4h"
        )
    return answer


def check_change(body: WhatIfIn, snapshot: Snapshot, caller: Principal) -> PoolChange:
    """Build the change, if this pool can have it.

    Raises:
        NotFound: The pool has no such node.
        UnknownPolicy: There is no such policy.
        UnknownModel: A model to add is unknown, and its memory was not given.
        UnknownTenant: The caller may see no such tenant.
        RequestRejection: The change is too large, leaves no card, or guarantees more than a
            cohort has.
    """
    _check_size(body, snapshot)
    if body.policy is not None:
        find_policy(body.policy)
    nodes = snapshot.cards.nodes
    for name in body.remove:
        if name not in nodes:
            raise NotFound(
                f"there is no node {name} in this pool",
                hint=f"it has: {', '.join(nodes[:8]) or 'none'}",
            )
    if nodes and set(body.remove) == set(nodes) and not body.add:
        raise RequestRejection(
            f"without its {len(nodes)} nodes the pool has no card left",
            hint="leave one, or --add others",
        )
    _check_quotas(body.nominal_milli, snapshot, caller)
    return PoolChange(
        tuple(_build_nodes(body, nodes)),
        tuple(body.remove),
        body.policy,
        dict(body.nominal_milli),
        None if body.sharing is None else SharingKind(body.sharing),
    )


def _check_size(body: WhatIfIn, snapshot: Snapshot) -> None:
    added = sum(add.nodes * add.cards for add in body.add)
    if added > MOST_ADDED:
        raise RequestRejection(
            f"{added} cards are added, and a forecast adds {MOST_ADDED} at most", hint="add fewer"
        )
    waiting = sum(entry.count for entry in snapshot.waiting)
    if waiting > MOST_WAITING:
        raise RequestRejection(
            f"{waiting} jobs wait, and a forecast looks at {MOST_WAITING} at most",
            hint="ask again when fewer wait; gpupool queue tells what waits now",
        )


def _build_nodes(body: WhatIfIn, taken: tuple[str, ...]) -> Iterator[TraceNode]:
    number = 0
    for add in body.add:
        cards = ((_find_model(add)),) * add.cards
        for _ in range(add.nodes):
            number += 1
            name = f"added-{number}"
            # Node names have no apostrophe, so a marked name is always free.
            yield TraceNode(name if name not in taken else f"added-{number}'", cards)


def _find_model(add: AddIn) -> tuple[str, int]:
    known = find_model(add.model, CATALOGUE)
    if add.memory_bytes is not None:
        return known or add.model, add.memory_bytes
    if known is None:
        near = nearest_model(add.model, CATALOGUE)
        hint = (f"did you mean {near}?  " if near else "") + "or give memory_bytes"
        raise UnknownModel(
            f"no card model is named {add.model!r}, so its memory is not known", hint=hint
        )
    return known, CATALOGUE[known].memory_mib * MIB


def _check_quotas(wanted: Mapping[str, int], snapshot: Snapshot, caller: Principal) -> None:
    for name in wanted:
        if name not in snapshot.tenants or not (caller.sees_all or name == caller.tenant):
            raise UnknownTenant(f"there is no tenant {name}", hint="gpupool tenant list")
    parents = {snapshot.tenants[name].cohort for name in wanted} - {None}
    for parent in sorted(filter(None, parents)):
        _check_parent(parent, wanted, snapshot)


def _check_parent(parent: str, wanted: Mapping[str, int], snapshot: Snapshot) -> None:
    """Raise RequestRejection if the nominal quotas below a cohort exceed its own."""
    branch = snapshot.cohorts.get(parent)
    limit = branch and branch.quota.limits.get(GPU)
    if not limit or limit.nominal is None:
        return
    guaranteed = 0
    for name, view in snapshot.tenants.items():
        if view.cohort == parent:
            guaranteed += wanted.get(name, view.quota.nominal_milli or 0)
    for cohort in snapshot.cohorts.values():
        if cohort.parent == parent:
            guaranteed += cohort.quota.nominal_milli or 0
    if guaranteed > limit.nominal:
        raise RequestRejection(
            f"below {parent} {format_gpu(guaranteed)} GPU would be guaranteed, "
            f"of its own {format_gpu(limit.nominal)}",
            hint="give less, or raise what is above first",
        )


def _build_answer(found: PoolForecast, caller: Principal) -> ForecastOut:
    tenants = dict[str, ForecastQueueOut]()
    for name, queue in found.tenants.items():
        if queue.waiting and (caller.sees_all or name == caller.tenant):
            tenants[name] = _describe_queue(queue)
    return ForecastOut(
        nodes=found.nodes,
        cards=found.cards,
        queue=_describe_queue(found.queue),
        tenants=tenants,
        allocation_now_pct=found.allocation_now_pct,
        allocation_pct=found.allocation_pct,
        largest_milli=found.largest_milli,
        whole_nodes=found.whole_nodes,
        evictions=found.evictions,
        no_end=found.no_end,
        moved=found.moved,
        horizon_seconds=round(found.horizon_ns / NANOS_PER_SECOND, 3),
        policy=found.policy,
        sharing_changed=found.sharing_changed,
        sharing_unchanged=found.sharing_unchanged,
        stranded_memory_bytes=found.stranded_bytes,
    )


def _describe_queue(queue: QueueForecast) -> ForecastQueueOut:
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
