"""Plans moves on a snapshot: free whole cards together, or balance load. Moves nothing."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from gpupool.allocations.store.tables import jobs
from gpupool.fleet.lookup import name_of, select_cards
from gpupool.fleet.tables import devices
from gpupool.scheduling import (
    LoadSpread,
    Move,
    RebalancingLimits,
    ReservedAmounts,
    Snapshot,
    is_movable,
    is_rebalanceable,
    make_cp_sat_solver,
    plan_defragmentation,
    plan_rebalancing,
)
from gpupool.store.database import Store
from gpupool.wire.defrag import (
    DefragIn,
    DefragOut,
    MoveLimits,
    MoveOut,
    RebalanceIn,
    RebalanceOut,
    ReservedOut,
    SpreadOut,
)


def plan_defrag(store: Store, snapshot: Snapshot, asked: DefragIn) -> DefragOut:
    """Plan the moves that free whole cards of one node together."""
    found = plan_defragmentation(
        snapshot,
        store.clock.now_ns(),
        block=asked.cards,
        wanted=asked.blocks,
        limits=_build_limits(asked),
        solver=make_cp_sat_solver(asked.seconds) if asked.seconds else None,
    )
    gain = found.gain
    return DefragOut(
        moves=_describe_moves(store, snapshot, found.moves),
        lost_seconds=found.lost_seconds,
        whole_cards=gain.cards,
        whole_nodes=gain.nodes,
        blocks=gain.blocks,
        by=found.by,
        movable=sum(map(is_movable, snapshot.running)),
        reserved=_describe_reserved(found.reserved),
    )


def plan_rebalance(store: Store, snapshot: Snapshot, asked: RebalanceIn) -> RebalanceOut:
    """Plan the moves of shares that balance the load of their cards."""
    found = plan_rebalancing(
        snapshot,
        store.clock.now_ns(),
        step_milli=asked.step_milli,
        use_free_cards=asked.use_free_cards,
        limits=_build_limits(asked),
    )
    return RebalanceOut(
        moves=_describe_moves(store, snapshot, found.moves),
        lost_seconds=found.lost_seconds,
        before=_describe_spread(found.before),
        after=_describe_spread(found.after),
        movable=sum(map(is_rebalanceable, snapshot.running)),
        reserved=_describe_reserved(found.reserved),
    )


def _build_limits(asked: MoveLimits) -> RebalancingLimits:
    return RebalancingLimits(asked.max_moves, asked.max_lost_seconds, asked.max_moves_per_tenant)


def _describe_reserved(reserved: ReservedAmounts) -> ReservedOut:
    return ReservedOut(**reserved._asdict())


def _describe_spread(spread: LoadSpread) -> SpreadOut:
    return SpreadOut(
        cards=spread.cards,
        highest_milli=spread.highest_milli,
        mean_milli=spread.mean_milli,
        jain=round(spread.jain, 4),
    )


def _describe_moves(store: Store, snapshot: Snapshot, moves: Sequence[Move]) -> list[MoveOut]:
    uuids = snapshot.cards.uuids
    concerned = set[str]()
    for move in moves:
        concerned.update(uuids[row] for row in move.from_rows + move.rows)
    # Two queries for any number of moves.
    job_names = _read_job_names(store, [move.job for move in moves])
    card_names = _read_card_names(store, concerned)
    described = list[MoveOut]()
    for move in moves:
        cards = [uuids[row] for row in move.rows]
        cards_before = [uuids[row] for row in move.from_rows]
        out = MoveOut(
            job=move.job,
            # A job without a row is shown by its id.
            name=job_names.get(move.job, move.job),
            tenant=move.tenant,
            from_node=move.from_node,
            from_devices=[card_names[uuid] for uuid in cards_before],
            node=move.node,
            devices=[card_names[uuid] for uuid in cards],
            cards=cards,
            # The caller sends them back when it applies the plan: then nothing may have changed.
            generations=snapshot.cards.generation[list(move.rows)].tolist(),
            lost_seconds=move.lost_seconds,
        )
        described.append(out)
    return described


def _read_job_names(store: Store, public_ids: Sequence[str]) -> dict[str, str]:
    with store.read() as connection:
        query = sa.select(jobs.c.public_id, jobs.c.name).where(jobs.c.public_id.in_(public_ids))
        return {row.public_id: row.name for row in connection.execute(query)}


def _read_card_names(store: Store, uuids: set[str]) -> dict[str, str]:
    # A card that is no longer known keeps its uuid as its name.
    names = dict(zip(uuids, uuids, strict=True))
    with store.read() as connection:
        for row in connection.execute(select_cards().where(devices.c.uuid.in_(uuids))):
            names[row.uuid] = name_of(row)
    return names
