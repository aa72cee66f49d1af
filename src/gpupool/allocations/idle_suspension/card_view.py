"""What running and idle-suspended shares have of each card, for `gpus` and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.allocations.idle_suspension.agreed_jobs import AgreedJob, sum_suspended_bytes
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling import Snapshot
from gpupool.wire.capacity import IdleRoom


def describe_idle_cards(
    agreed: Sequence[AgreedJob], snapshot: Snapshot, rules: IdleSuspensionRules
) -> list[IdleRoom]:
    """Describe the cards that have idle-suspended shares; a card that is absent is left out."""
    away = [one for one in agreed if one.has_left_idle]
    suspended = sum_suspended_bytes(away)
    rooms = list[IdleRoom]()
    for row, uuid in enumerate(snapshot.cards.uuids):
        mine = [one for one in away if uuid in one.cards]
        if not mine:
            continue
        total = int(snapshot.cards.memory_bytes[row])
        room = IdleRoom(
            card=mine[0].names[uuid],
            uuid=uuid,
            jobs=len(mine),
            wanted=sum(one.wanted_ns > 0 for one in mine),
            running_bytes=total - int(snapshot.cards.free_bytes[row]),
            suspended_bytes=suspended[uuid],
            limit_bytes=rules.compute_limit(total),
        )
        rooms.append(room)
    return rooms
