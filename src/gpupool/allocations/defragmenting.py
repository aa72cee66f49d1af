"""Plans of moves for this pool, made on a frozen copy: whole cards brought together, or load spread. Moves nothing."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from gpupool.allocations.tables import jobs
from gpupool.fleet.lookup import cards, name_of
from gpupool.fleet.tables import devices
from gpupool.scheduling.defrag import defrag
from gpupool.scheduling.defrag_solver import solver
from gpupool.scheduling.move_limits import Limits
from gpupool.scheduling.moves import Move, is_movable
from gpupool.scheduling.rebalance import Spread, can_spread, rebalance
from gpupool.scheduling.snapshot import Snapshot
from gpupool.scheduling.spare import Reserved
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
    """What to move so that whole cards of one node come free together."""
    found = defrag(
        snapshot,
        store.clock.now_ns(),
        block=asked.cards,
        wanted=asked.blocks,
        limits=_limits(asked),
        solver=solver(asked.seconds) if asked.seconds else None,
    )
    gain = found.gain
    return DefragOut(
        moves=_told(store, snapshot, found.moves),
        lost_seconds=found.lost_seconds,
        whole_cards=gain.cards,
        whole_nodes=gain.nodes,
        blocks=gain.blocks,
        by=found.by,
        movable=sum(is_movable(job) for job in snapshot.running),
        reserved=_reserved(found.reserved),
    )


def plan_rebalance(store: Store, snapshot: Snapshot, asked: RebalanceIn) -> RebalanceOut:
    """Which shares to move so that the cards they are on are loaded more alike."""
    found = rebalance(
        snapshot,
        store.clock.now_ns(),
        step_milli=asked.step_milli,
        use_free_cards=asked.use_free_cards,
        limits=_limits(asked),
    )
    return RebalanceOut(
        moves=_told(store, snapshot, found.moves),
        lost_seconds=found.lost_seconds,
        before=_spread(found.before),
        after=_spread(found.after),
        movable=sum(can_spread(job) for job in snapshot.running),
        reserved=_reserved(found.reserved),
    )


def _limits(asked: MoveLimits) -> Limits:
    return Limits(asked.max_moves, asked.max_lost_seconds, asked.max_moves_per_tenant)


def _reserved(reserved: Reserved) -> ReservedOut:
    return ReservedOut(**reserved._asdict())


def _spread(spread: Spread) -> SpreadOut:
    return SpreadOut(
        cards=spread.cards,
        highest_milli=spread.highest_milli,
        mean_milli=spread.mean_milli,
        jain=round(spread.jain, 4),
    )


def _told(store: Store, snapshot: Snapshot, moves: Sequence[Move]) -> list[MoveOut]:
    names, uuids = _names(store, [move.job for move in moves]), snapshot.cards.uuids
    named = _cards(store, {uuids[row] for move in moves for row in move.from_rows + move.rows})
    return [
        MoveOut(
            job=move.job,
            name=names.get(move.job, move.job),
            tenant=move.tenant,
            from_node=move.from_node,
            from_devices=[named[uuids[row]] for row in move.from_rows],
            node=move.node,
            devices=[named[uuids[row]] for row in move.rows],
            cards=[uuids[row] for row in move.rows],
            generations=snapshot.cards.generation[list(move.rows)].tolist(),
            lost_seconds=move.lost_seconds,
        )
        for move in moves
    ]


def _names(store: Store, public_ids: Sequence[str]) -> dict[str, str]:
    with store.read() as connection:
        query = sa.select(jobs.c.public_id, jobs.c.name).where(jobs.c.public_id.in_(public_ids))
        return {row.public_id: row.name for row in connection.execute(query)}


def _cards(store: Store, uuids: set[str]) -> dict[str, str]:
    """What people call these cards; a uuid where one is not known any more."""
    with store.read() as connection:
        rows = connection.execute(cards().where(devices.c.uuid.in_(uuids)))
        return {uuid: uuid for uuid in uuids} | {row.uuid: name_of(row) for row in rows}
