"""What running and idle-suspended shares have of each card, for `gpus` and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.allocations.idle_suspension.agreed_jobs import AgreedJob
from gpupool.scheduling import Snapshot, describe_kept_card
from gpupool.wire.capacity import IdleRoom


def describe_idle_cards(agreed: Sequence[AgreedJob], snapshot: Snapshot) -> list[IdleRoom]:
    """Describe the cards that have idle-suspended shares; a card that is absent is left out."""
    away = [one for one in agreed if one.has_left_idle]
    rooms = list[IdleRoom]()
    for row, uuid in enumerate(snapshot.cards.uuids):
        mine = [one for one in away if uuid in one.cards]
        if not mine:
            continue
        kept = describe_kept_card(snapshot, row)
        kept_bytes = kept.woken_bytes + kept.kept_bytes
        total = int(snapshot.cards.memory_bytes[row])
        room = IdleRoom(
            card=mine[0].names[uuid],
            uuid=uuid,
            jobs=len(mine),
            wanted=sum(one.wanted_ns > 0 for one in mine),
            # The free amounts of a snapshot are without what is kept.
            running_bytes=total - int(snapshot.cards.free_bytes[row]) - kept_bytes,
            suspended_bytes=kept.woken_bytes + kept.asleep_bytes,
            kept_milli=kept.woken_milli,
            kept_bytes=kept_bytes,
            limit_bytes=kept.limit_bytes,
        )
        rooms.append(room)
    return rooms
