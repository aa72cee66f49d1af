"""What the fleet promises about cards, their history and their nodes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpupool.base.errors import BadOption, Conflict, InvalidBody, NotFound, StillInUse, WrongState
from gpupool.fleet.hearing import SILENT_AFTER_SECONDS
from gpupool.fleet.service import USAGE_FRESH_SECONDS
from gpupool.model.device import DeviceState, may_become
from gpupool.wire.fleet import DeviceSample, ProcessOut, UsageOut
from tests.unit.fleet.conftest import ADMIN, AGENT, GIB, USER, House, card, node


def real(index: int, **changes: Any) -> Any:
    return card(index, simulated=False, **changes)


def test_simulated_cards_start_adopted_and_real_ones_observed_whatever_the_agent_asks(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.fleet.register("iron", node(real(1)), AGENT)
    assert [house.rows()[f"GPU-{i}"].state for i in (0, 1)] == ["adopted", "observed"]
    assert house.spans("GPU-0") == [("pooled", 0, None)]
    assert house.spans("GPU-1") == [("unmanaged", 0, None)]


def test_registering_the_same_again_changes_nothing_but_the_time_it_was_seen(house: House) -> None:
    body = node(card(0), card(1), labels={"rack": "7"}, facts={"cpu_count": 8})
    first = house.fleet.register("sim", body, AGENT)
    before = (house.rows(), house.events(), house.generation())
    house.time.forward(5)
    second = house.fleet.register("sim", body, AGENT)
    assert (house.rows(), house.events(), house.generation()) == before
    assert second.last_seen_ns > first.last_seen_ns
    assert second.generation == first.generation


def test_a_card_that_vanished_is_lost_without_capacity_and_returns_as_it_was(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.fleet.release(["sim:1"], False, ADMIN)
    house.time.forward(10)
    house.fleet.register("sim", node(card(0)), AGENT)
    assert house.rows()["GPU-1"].state == "lost"
    assert house.fleet.node("sim").devices == 1
    house.time.forward(10)
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    assert house.rows()["GPU-1"].state == "observed"
    assert house.spans("GPU-1") == [("unmanaged", 0, 10), ("unmanaged", 20, None)]
    assert house.spans("GPU-0") == [("pooled", 0, None)]
    assert [e.subject for e in house.events("device.lost")] == ["sim:1"]
    assert "state_before_lost" not in house.fleet.device("sim:1", ADMIN).facts


def test_a_card_that_vanished_under_its_jobs_counts_as_overhead_until_the_last_has_left(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.sit("GPU-0")
    house.time.forward(10)
    house.fleet.register("sim", node(), AGENT)
    house.time.forward(5)
    house.leave("GPU-0")
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("overhead", 10, 15)]


def test_two_cards_may_swap_their_indexes_and_keep_what_sits_on_them(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0")
    house.fleet.register("sim", node(card(0, index=1), card(1, index=0)), AGENT)
    shown = house.fleet.device("sim:1", ADMIN)
    assert (shown.uuid, shown.shares) == ("GPU-0", 1)


def test_a_lost_card_gives_its_index_to_the_card_that_took_its_place(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.fleet.register("sim", node(card(0), card(7, index=1)), AGENT)
    assert house.fleet.device("sim:1", ADMIN).uuid == "GPU-7"
    assert house.fleet.device("GPU-1", ADMIN).name == "sim:2"


def test_a_card_whose_memory_changed_under_its_shares_is_refused_and_nothing_changes(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.sit("GPU-0")
    before = house.rows()
    with pytest.raises(StillInUse, match=r"49152 MiB.*24576 MiB.*1 shares"):
        house.fleet.register("sim", node(card(0, memory_bytes=24 * GIB)), AGENT)
    assert house.rows() == before


def test_an_empty_card_may_change_its_memory_and_its_history_says_when(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.time.forward(3)
    house.fleet.register("sim", node(card(0, memory_bytes=24 * GIB)), AGENT)
    assert house.spans("GPU-0") == [("pooled", 0, 3), ("pooled", 3, None)]


def test_a_card_belongs_to_one_node_until_that_node_no_longer_shows_it(house: House) -> None:
    house.fleet.register("one", node(card(0)), AGENT)
    with pytest.raises(Conflict, match="GPU-0 belongs to another node"):
        house.fleet.register("two", node(card(0)), AGENT)
    house.fleet.register("one", node(), AGENT)
    house.fleet.register("two", node(card(0)), AGENT)
    assert house.fleet.device("GPU-0", ADMIN).name == "two:0"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (node(card(0), card(0, index=1)), "uuid 'GPU-0'"),
        (node(card(0), card(1, index=0)), "index 0"),
        (node(card(0), simulated=False), "simulated"),
        (node(card(0, model="L40S\n")), "cannot be printed"),
    ],
)
def test_a_body_that_no_machine_can_be_is_refused(house: House, body: Any, words: str) -> None:
    with pytest.raises(InvalidBody, match=words):
        house.fleet.register("sim", body, AGENT)
    assert not house.rows()


def test_adopting_is_all_or_nothing_and_twice_is_once(house: House) -> None:
    house.fleet.register("iron", node(real(0), real(1)), AGENT)
    with pytest.raises(NotFound, match="iron:9"):
        house.fleet.adopt(["iron:0", "iron:9"], ADMIN)
    assert house.rows()["GPU-0"].state == "observed"
    house.time.forward(4)
    assert [one.state for one in house.fleet.adopt(["0", "GPU-1", "iron:0"], ADMIN)] == ["adopted", "adopted"]
    before = (house.rows(), house.events())
    house.fleet.adopt(["0", "1"], ADMIN)
    assert (house.rows(), house.events()) == before
    assert house.spans("GPU-0") == [("unmanaged", 0, 4), ("pooled", 4, None)]


def test_a_lost_card_cannot_be_adopted(house: House) -> None:
    house.fleet.register("iron", node(real(0)), AGENT)
    house.fleet.register("iron", node(), AGENT)
    with pytest.raises(WrongState, match="iron:0"):
        house.fleet.adopt(["iron:0"], ADMIN)


def test_releasing_a_card_with_shares_is_refused_with_the_numbers(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-1")
    with pytest.raises(StillInUse, match=r"1 share is on sim:1 \(1\); nothing was released"):
        house.fleet.release(["sim:0", "sim:1"], False, ADMIN)
    assert house.rows()["GPU-0"].state == "adopted"


def test_a_draining_card_is_released_when_its_last_share_is_given_back(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0")
    house.time.forward(10)
    assert [d.state for d in house.fleet.release(["0", "1"], True, ADMIN)] == ["draining", "observed"]
    assert house.fleet.device("0", ADMIN).largest_milli == 0
    house.time.forward(10)
    house.leave("GPU-0")
    assert house.rows()["GPU-0"].state == "observed"
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("overhead", 10, 20), ("unmanaged", 20, None)]
    kinds = [e.kind for e in house.events() if e.kind.startswith("device.") and e.subject == "sim:0"]
    assert kinds == ["device.added", "device.draining", "device.released"]


def test_a_card_that_fails_becomes_overhead_and_is_told_once(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.time.forward(10)
    sample = DeviceSample(uuid="GPU-0", usage=UsageOut(), health="failed", health_reason="XID 79")
    house.fleet.observe("sim", [sample])
    house.fleet.observe("sim", [sample])
    assert [e.data["health"] for e in house.events("device.health")] == ["failed"]
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("overhead", 10, None)]
    assert house.fleet.device("0", ADMIN).largest_bytes == 0


def test_a_change_that_takes_no_whole_second_leaves_no_span(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.fleet.release(["0"], False, ADMIN)
    house.fleet.adopt(["0"], ADMIN)
    assert house.spans("GPU-0") == [("pooled", 0, None)]


def test_samples_of_another_agents_cards_are_ignored(house: House) -> None:
    house.fleet.register("one", node(card(0)), AGENT)
    house.fleet.register("two", node(card(1)), AGENT)
    house.fleet.observe("two", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=99), health="failed")])
    shown = house.fleet.device("GPU-0", ADMIN)
    assert (shown.health, shown.usage.utilization_percent) == ("ok", None)


def test_only_admins_see_who_runs_what_outside_the_pool(house: House) -> None:
    house.fleet.register("iron", node(real(0)), AGENT)
    process = ProcessOut(pid=77, user="bob", name="secret.py", memory_bytes=GIB, started_ns=5)
    house.fleet.observe("iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(), unmanaged=[process])])
    assert house.fleet.device("0", ADMIN).unmanaged == [process]
    (shown,) = house.fleet.device("0", USER).unmanaged
    assert (shown.user, shown.memory_bytes, shown.started_ns, "secret" in shown.name) == (None, GIB, None, False)
    assert shown.pid != 77


def test_usage_that_is_too_old_is_unknown_rather_than_wrong(house: House) -> None:
    house.fleet.register("iron", node(real(0)), AGENT)
    house.fleet.observe("iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=50))])
    house.time.forward(USAGE_FRESH_SECONDS)
    assert house.fleet.device("0", ADMIN).usage.utilization_percent == 50
    house.time.forward(1)
    assert house.fleet.device("0", ADMIN).usage.utilization_percent is None


def test_a_health_event_does_not_forget_the_latest_usage(house: House) -> None:
    house.fleet.register("iron", node(real(0)), AGENT)
    house.fleet.observe("iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(utilization_percent=50))])
    house.fleet.observe("iron", [DeviceSample(uuid="GPU-0", usage=UsageOut(), health="warning")])
    assert house.fleet.device("0", ADMIN).usage.utilization_percent == 50


def test_a_silent_node_is_not_ready_and_its_next_word_makes_it_ready_again(house: House) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    house.fleet.mark_ready("sim")
    house.time.forward(SILENT_AFTER_SECONDS - 1)
    assert house.fleet.check_silence() == pytest.approx(1)
    assert house.fleet.node("sim").ready
    house.time.forward(1)
    assert house.fleet.check_silence() == pytest.approx(SILENT_AFTER_SECONDS)
    house.fleet.check_silence()
    assert [e.kind for e in house.events() if e.kind.startswith("node.")][-1] == "node.silent"
    assert not house.fleet.node("sim").ready
    house.fleet.seen("sim")
    assert house.fleet.node("sim").ready
    assert len(house.events("node.silent")) == 1


def test_after_a_restart_no_node_is_ready_and_one_that_stays_away_is_told_silent(house: House) -> None:
    house.fleet.register("sim", node(card(0), agent="host"), AGENT)
    house.fleet.mark_ready("host")
    restarted = House(house.store, house.time)
    restarted.fleet.begin()
    assert not restarted.fleet.node("sim").ready
    house.time.forward(SILENT_AFTER_SECONDS)
    restarted.fleet.check_silence()
    assert [e.subject for e in house.events("node.silent")] == ["sim"]


def test_one_agent_makes_all_its_nodes_ready_under_any_of_their_names(house: House) -> None:
    for index, name in enumerate(["sim-0", "sim-1"]):
        house.fleet.register(name, node(card(index), agent="host"), AGENT)
    house.fleet.mark_ready("sim-1")
    assert [one.ready for one in house.fleet.list_nodes().items] == [True, True]
    with pytest.raises(NotFound, match="nobody"):
        house.fleet.mark_ready("nobody")


def test_a_node_stays_with_the_agent_that_is_heard(house: House) -> None:
    house.fleet.register("sim", node(card(0), agent="one"), AGENT)
    with pytest.raises(Conflict, match="served by agent one"):
        house.fleet.register("sim", node(card(0), agent="two"), AGENT)
    house.time.forward(SILENT_AFTER_SECONDS)
    house.fleet.check_silence()
    house.fleet.register("sim", node(card(0), agent="two"), AGENT)


def test_pages_hold_every_card_once_in_order_of_node_and_index(house: House) -> None:
    for n in range(3):
        cards = [card(n * 10 + i, index=i) for i in range(4)]
        house.fleet.register(f"n{n}", node(*cards), AGENT)
    seen: list[str] = []
    after = None
    while True:
        page = house.fleet.list_devices(ADMIN, after=after, limit=5)
        seen += [one.name for one in page.items]
        after = page.next
        if after is None:
            break
    assert seen == [f"n{n}:{i}" for n in range(3) for i in range(4)]
    assert [one.name for one in house.fleet.list_devices(ADMIN, node="n1", limit=2).items] == ["n1:0", "n1:1"]
    house.fleet.release(["n2:3"], False, ADMIN)
    assert [one.name for one in house.fleet.list_devices(ADMIN, state="observed").items] == ["n2:3"]
    assert house.fleet.list_nodes(limit=2).next == "n1"
    assert [one.name for one in house.fleet.list_nodes(after="n1").items] == ["n2"]
    with pytest.raises(BadOption, match="1000"):
        house.fleet.list_devices(ADMIN, limit=1001)


@pytest.mark.parametrize("text", ["", "x", "sim:", "sim:-1", "sim:99999999999999", "none:0", "sim:0\n", "²", "7"])
def test_a_name_that_fits_no_card_is_not_found(house: House, text: str) -> None:
    house.fleet.register("sim", node(card(0)), AGENT)
    with pytest.raises(NotFound):
        house.fleet.device(text, ADMIN)


def test_a_bare_index_is_ambiguous_in_a_pool_of_several_nodes(house: House) -> None:
    for n in range(2):
        house.fleet.register(f"n{n}", node(card(n)), AGENT)
    with pytest.raises(NotFound, match="several nodes"):
        house.fleet.device("0", ADMIN)


def test_the_largest_placeable_share_is_what_is_left_of_both(house: House) -> None:
    house.fleet.register("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0", milli=300, size=GIB + 5)
    house.sit("GPU-1", milli=1000, size=GIB)
    shown = house.fleet.device("0", ADMIN)
    assert (shown.largest_milli, shown.largest_bytes) == (700, 47 * GIB - (1 << 20))
    full = house.fleet.device("1", ADMIN)
    assert (full.largest_milli, full.largest_bytes, full.free_bytes) == (0, 0, 47 * GIB)


def test_a_pool_says_whether_it_is_simulated_and_none_when_it_is_mixed(house: House) -> None:
    assert house.fleet.describe_simulated() is False
    house.fleet.register("sim", node(card(0)), AGENT)
    assert house.fleet.describe_simulated() is True
    house.fleet.register("iron", node(real(1)), AGENT)
    assert house.fleet.describe_simulated() is None
    assert house.fleet.counts() == (2, 2)


def test_every_step_a_card_takes_is_in_its_lifecycle(house: House) -> None:
    steps = [
        lambda: house.fleet.register("sim", node(card(0)), AGENT),
        lambda: house.sit("GPU-0"),
        lambda: house.fleet.release(["0"], True, ADMIN),
        lambda: house.fleet.adopt(["0"], ADMIN),
        lambda: house.fleet.release(["0"], True, ADMIN),
        lambda: house.fleet.register("sim", node(), AGENT),
        lambda: house.fleet.register("sim", node(card(0)), AGENT),
        lambda: house.leave("GPU-0"),
        lambda: house.fleet.register("sim", node(), AGENT),
        lambda: house.fleet.register("sim", node(card(0)), AGENT),
        lambda: house.fleet.adopt(["0"], ADMIN),
        lambda: house.fleet.release(["0"], False, ADMIN),
    ]
    path = []
    for step in steps:
        step()
        path.append(DeviceState(house.rows()["GPU-0"].state))
    assert set(path) == set(DeviceState)
    assert [pair for pair in itertools.pairwise(path) if not may_become(*pair)] == []
