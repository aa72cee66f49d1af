"""A small share that prefers throughput or density gets MPS where that isolates as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.allocations.submission.sharing_choice import make_part_check
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.enforcement import FenceLevel, spread_level
from gpupool.model.isolation.mechanism_offer import CardOffers
from gpupool.wire.containers import ContainerIn
from gpupool.wire.submissions import JobIn, LaunchIn, NeedsIn, ShapeIn
from tests.support.offered_nodes import FENCE, MPS, WHOLE_CARDS
from tests.support.scheduling_builders import cards, snapshot, tenant

NAMED = replace(MPS, sharing=("mps",))
ADVISORY = replace(NAMED, levels=spread_level(FenceLevel.ADVISORY))
THROUGHPUT = NeedsIn(goal="throughput")


def check(asked: ShapeIn, offer: object = NAMED, launch: LaunchIn | None = None) -> Shape:
    offers = CardOffers((WHOLE_CARDS, FENCE, offer))  # type: ignore[arg-type]
    pool = replace(cards("1xH200"), offers={0: offers})
    view = snapshot(pool, tenants={"nlp": tenant()})
    body = JobIn(shape=asked, launch=launch or LaunchIn(argv=["true"]))
    return make_part_check(body, view, "nlp", None)(asked)


@pytest.mark.parametrize("goal", ["throughput", "density"])
@pytest.mark.parametrize("isolation", [None, "none", "soft"])
def test_a_small_share_with_such_a_goal_gets_mps(goal: str, isolation: str | None) -> None:
    needs = NeedsIn.model_validate({"goal": goal, "isolation": isolation})
    shape = check(ShapeIn(gpu_milli=200, needs=needs))
    assert (shape.sharing, shape.owner) == (SharingKind.MPS, "nlp")


@pytest.mark.parametrize(
    "asked",
    [
        ShapeIn(gpu_milli=200),
        ShapeIn(gpu_milli=200, needs=NeedsIn(goal="latency")),
        ShapeIn(gpu_milli=200, needs=NeedsIn(goal="density", isolation="hard")),
        ShapeIn(gpu_milli=200, needs=NeedsIn(goal="density", isolation="fault")),
        ShapeIn(gpu_milli=600, needs=THROUGHPUT),
        ShapeIn(gpu_milli=200, count=2, needs=THROUGHPUT),
        ShapeIn(gpu_milli=200, sharing="burst", needs=THROUGHPUT),
    ],
    ids=str,
)
def test_every_other_share_keeps_its_kind(asked: ShapeIn) -> None:
    shape = check(asked)
    assert (shape.sharing, shape.owner) == (asked.sharing or SharingKind.FIXED, "")


def test_mps_that_isolates_less_than_the_fence_is_not_chosen() -> None:
    assert check(ShapeIn(gpu_milli=200, needs=THROUGHPUT), ADVISORY).owner == ""
    assert check(ShapeIn(gpu_milli=200, sharing="mps"), ADVISORY).owner == "nlp"


def test_a_container_is_no_mps_client() -> None:
    launch = LaunchIn(argv=["true"], container=ContainerIn(image="img"))
    assert check(ShapeIn(gpu_milli=200, needs=THROUGHPUT), launch=launch).owner == ""
