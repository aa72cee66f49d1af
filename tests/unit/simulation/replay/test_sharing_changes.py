"""Every share of a pool with one kind of sharing: which shapes change, and which stay."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.simulation.replay.sharing_changes import change_shape, change_sharing
from tests.support.gang_builders import gang, role
from tests.support.scheduling_builders import shape, snapshot, waiting, whole

BURST = SharingKind.BURST
LOOSE = SharingKind.BEST_EFFORT


@pytest.mark.parametrize(
    "kept",
    [
        Shape(1000),
        Shape(0, count=0, cpu_milli=1000),
        Shape(142, profile="1g.18gb"),
        Shape(300, GIB, sharing=SharingKind.MPS, owner="nlp"),
        # It names no part of the compute that it could be promised.
        Shape(1000, GIB, sharing=LOOSE),
        Shape(300, GIB, sharing=BURST),
    ],
)
def test_what_has_no_other_sharing_stays_as_it_is(kept: Shape) -> None:
    assert change_shape(kept, BURST) is kept


def test_roles_of_gangs_and_expected_shapes_change_too() -> None:
    members = gang("g", role("driver", whole(), 1), role("worker", shape(300, GIB), 2))
    before = snapshot("2xH200", members, waiting("a", want=shape(500, GIB)))
    found = change_sharing(before, BURST)
    changed = found.snapshot.waiting[0].gang
    assert changed is not None
    assert [one.shape.sharing for one in changed.root.iterate_roles()] == ["fixed", "burst"]
    assert found.snapshot.waiting[1].shape.sharing is BURST
    # Three members of the gang, and one job.
    assert (found.changed, found.unchanged) == (4, 0)
    assert before.waiting[1].shape.sharing is SharingKind.FIXED


def test_a_promise_stays_where_the_new_sharing_holds_as_much() -> None:
    entry = waiting("a", want=shape(500, GIB))
    start = PlannedStart(10, (0,), True, (500,), (GIB,), "a", firm=True)
    before = snapshot("2xH200", entry)
    before.previous_starts[entry.key] = start  # type: ignore[index]
    held = change_sharing(before, BURST).snapshot
    assert held.previous_starts == {held.waiting[0].key: start}
    assert change_sharing(before, LOOSE).snapshot.previous_starts == {}
