"""Promised starts are kept until their claims have cards, and follow the list of cards."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.kubernetes.cache.promised_starts import PromisedStarts
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import JobPlacement, Plan, PlannedStart
from tests.support.scheduling_builders import cards

FIRST = ClassKey("nlp", 0, Shape(1000))
SECOND = ClassKey("nlp", 1, Shape(1000))


def promise(claim: str, row: int, device: str) -> PlannedStart:
    """A firm start on one card."""
    return PlannedStart(5, (row,), reserved=True, claim=claim, firm=True, devices=(device,))


def build_plan(starts: Mapping[ClassKey, PlannedStart], *placed: JobPlacement) -> Plan:
    return Plan(1, placed, {}, starts=starts)


def place(job: str, gang: str = "") -> JobPlacement:
    return JobPlacement(job, "node-1", (Seat("node-1/0", 1000, 1),), (1,), "", gang)


def test_firm_promise_of_a_placed_claim_stays_until_the_next_plan() -> None:
    promises = PromisedStarts()
    kept = promise("a/main", 0, "node-1/0")
    promises.keep_promises(build_plan({FIRST: kept, SECOND: promise("b/main", 1, "node-1/1")}))
    promises.keep_promises(build_plan({}, place("a/main")))
    assert promises.by_class == {FIRST: kept}
    promises.keep_promises(build_plan({}))
    assert promises.by_class == {}


def test_promise_of_a_gang_is_kept_by_the_name_of_the_gang() -> None:
    promises = PromisedStarts()
    promises.keep_promises(build_plan({FIRST: promise("team/train", 0, "node-1/0")}))
    promises.keep_promises(build_plan({}, place("a/main", gang="team/train")))
    assert list(promises.by_class) == [FIRST]


def test_start_that_holds_no_cards_is_no_promise() -> None:
    promises = PromisedStarts()
    promises.keep_promises(
        build_plan({FIRST: PlannedStart(5), SECOND: PlannedStart(9, (0,), True)})
    )
    assert list(promises.by_class) == [SECOND]


def test_promise_has_the_new_positions_of_its_cards() -> None:
    promises = PromisedStarts()
    before = cards("2x2xL40S")
    promises.renumber_cards(before)
    promises.keep_promises(build_plan({FIRST: promise("a/main", 3, "node-2/1")}))
    assert promises.renumber_cards(before)[FIRST].rows == (3,)
    # The node before it has lost a card.
    assert promises.renumber_cards(cards("1x1xL40S+1x2xL40S"))[FIRST].rows == (2,)


def test_promise_whose_card_is_gone_is_dropped_and_so_is_an_estimate() -> None:
    promises = PromisedStarts()
    promises.renumber_cards(cards("2x2xL40S"))
    estimate = PlannedStart(9, (0,), reserved=True, claim="b/main")
    promises.keep_promises(build_plan({FIRST: promise("a/main", 3, "node-2/1"), SECOND: estimate}))
    assert len(promises.renumber_cards(cards("2x2xL40S"))) == 2
    assert promises.renumber_cards(cards("1x2xL40S")) == {}
