"""`--sim`: what people type, and a simulated machine that falls ill."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadMachine, UnknownModel
from gpupool.model.device import DeviceHealth, DeviceUsage
from gpupool.model.topology import LinkKind
from gpupool.probes.contract import HealthEvent
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.probes.simulated_health import set_health


def shapes(spec: str) -> list[dict[str, int]]:
    return [dict(Counter(d.model for d in machine.devices)) for machine in parse_sim(spec)]


@pytest.mark.parametrize(
    ("spec", "machines"),
    [
        ("H200", [{"H200": 1}]),
        ("4xL40S", [{"L40S": 4}]),
        ("2x8xH200", [{"H200": 8}] * 2),
        ("1x1xT4", [{"T4": 1}]),
        ("4xL40S+2xT4", [{"L40S": 4, "T4": 2}]),
        ("8xH100,4xL40S", [{"H100": 8}, {"L40S": 4}]),
        ("2x8xH200,T4+T4", [{"H200": 8}, {"H200": 8}, {"T4": 2}]),
        (" 4 x l40s ", [{"L40S": 4}]),
        ("4×L40S", [{"L40S": 4}]),
        ("4*rtx_4090", [{"RTX-4090": 4}]),
        ("MI300X", [{"MI300X": 1}]),
        ("2x2xMI300X", [{"MI300X": 2}] * 2),
        ("two-nodes", [{"H100": 8}, {"L40S": 4}]),
        ("Mixed", [{"A100-80G": 2, "RTX-4090": 2, "T4": 1}]),
        ("8XH200", [{"H200": 8}]),
        ("mixed", [{"A100-80G": 2, "RTX-4090": 2, "T4": 1}]),
    ],
)
def test_what_people_type_becomes_machines(spec: str, machines: list[dict[str, int]]) -> None:
    assert shapes(spec) == machines


@pytest.mark.parametrize(
    ("spec", "modes"),
    [
        ("2xH200:mig", [[True, True]]),
        ("2x1xA30:mig", [[True], [True]]),
        ("1xH200:mig+2xT4", [[True, None, None]]),
        ("8xH100:mig,L40S", [[True] * 8, [None]]),
        ("8xH100", [[None] * 8]),
    ],
)
def test_cards_can_be_in_partition_mode(spec: str, modes: list[list[bool | None]]) -> None:
    machines = parse_sim(spec)
    assert [[device.partitioned for device in machine.devices] for machine in machines] == modes
    assert all(
        device.profiles for machine in machines for device in machine.devices if device.partitioned
    )


def test_partition_mode_of_a_card_that_cannot_be_cut_is_refused_with_those_that_can() -> None:
    with pytest.raises(BadMachine, match="what a T4 can be cut into is not known") as caught:
        parse_sim("2xT4:mig")
    assert "A30" in caught.value.hint


@pytest.mark.parametrize(
    "spec", ["0xH200", "-1xH200", "0x8xH200", "2x0xH200", "2x-8xH200", "4xL40S+0xT4"]
)
def test_a_count_below_one_is_refused(spec: str) -> None:
    with pytest.raises(BadMachine, match="at least one card"):
        parse_sim(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "129xT4",
        "10001xT4",
        "999999999x8xH200",
        "10001x1xT4",
        "2501x8xH200",
        "100x128xT4," * 2 + "T4",
    ],
)
def test_a_pool_beyond_the_limits_is_refused_with_the_limits(spec: str) -> None:
    with pytest.raises(BadMachine) as caught:
        parse_sim(spec)
    assert caught.value.message.startswith("too large to simulate: ")
    assert (
        caught.value.hint == "the limits are 10000 nodes, 128 cards on a node, 20000 cards in all"
    )


@pytest.mark.parametrize(
    "spec",
    ["", " ", "x", "4", "2x8", "4x", "4xL40S,", "+", "4xL40S++T4", "!!", "🙂", "2x4xL40S+T4", "\0"],
)
def test_garbage_is_refused_with_examples_of_what_is_understood(spec: str) -> None:
    with pytest.raises((BadMachine, UnknownModel)) as caught:
        parse_sim(spec)
    assert "4xL40S" in caught.value.hint or "L40S" in caught.value.hint


@pytest.mark.parametrize(
    ("spec", "near"), [("8xH2OO", "H200"), ("4xL4OS", "L40S"), ("A100-80", "A100-80G")]
)
def test_an_unknown_model_is_refused_with_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        parse_sim(spec)
    assert caught.value.hint == f"did you mean {near}?"
    assert caught.value.details["nearest"] == near


def test_a_family_name_leads_to_its_models() -> None:
    with pytest.raises(UnknownModel) as caught:
        parse_sim("4xA100")
    assert "A100-" in caught.value.hint


def test_ten_thousand_cards_have_ten_thousand_names() -> None:
    machines = parse_sim("1250x8xH200")
    assert len({d.uuid for m in machines for d in m.devices}) == 10_000
    assert len({m.name for m in machines}) == 1250


def test_the_same_words_and_seed_give_the_same_cards() -> None:
    assert parse_sim("2x8xH200", "pool") == parse_sim("2x8xH200", "pool")
    assert (
        parse_sim("2x8xH200", "pool")[0].devices[0].uuid
        != parse_sim("2x8xH200", "other")[0].devices[0].uuid
    )


def test_a_specification_that_is_a_preset_describes_the_same_machine() -> None:
    (preset,), (first, _) = parse_sim("8xA100-40G"), parse_sim("2x8xA100-40G")
    assert first == preset


def test_cards_sold_on_switched_boards_are_joined_and_others_are_not() -> None:
    switched, plain = (parse_sim(spec)[0].topology for spec in ("4xH200", "4xL4"))
    assert switched.find_diameter(switched.devices) == LinkKind.NVSWITCH.distance
    assert plain.list_domains(LinkKind.NVSWITCH) == tuple(
        frozenset((uuid,)) for uuid in plain.devices
    )


@given(st.text(alphabet="0123456789xX+*, -ATHL4SG0\t", max_size=16))
def test_whatever_is_typed_the_answer_is_machines_or_a_refusal(spec: str) -> None:
    try:
        good = 1 <= sum(len(m.devices) for m in parse_sim(spec)) <= 20_000
    except (BadMachine, UnknownModel) as refusal:
        good = bool(refusal.message and refusal.hint)
    assert good


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[SimulatedProbe]:
    probe = SimulatedProbe(parse_sim("8xH200")[0], tmp_path)
    yield probe
    probe.close()


def test_the_load_of_a_simulated_card_is_unknown(probe: SimulatedProbe) -> None:
    uuid = probe.scan().devices[0].uuid
    assert probe.observe([uuid, "GPU-none"]) == {uuid: DeviceUsage()}


def test_a_card_is_made_to_fail_by_index_or_by_uuid(probe: SimulatedProbe, tmp_path: Path) -> None:
    uuid = probe.scan().devices[5].uuid
    set_health(tmp_path, 3, DeviceHealth.FAILED, "fell off the bus", xid=79)
    set_health(tmp_path, uuid, DeviceHealth.WARNING, "hot")
    states = {d.index: (d.health, d.health_reason) for d in probe.scan().devices}
    assert states[3] == (DeviceHealth.FAILED, "fell off the bus (XID 79)")
    assert states[5] == (DeviceHealth.WARNING, "hot")
    assert {health for i, (health, _) in states.items() if i not in (3, 5)} == {DeviceHealth.OK}


def test_a_failure_is_told_once_and_so_is_the_repair(probe: SimulatedProbe, tmp_path: Path) -> None:
    uuid = probe.scan().devices[3].uuid
    set_health(tmp_path, 3, DeviceHealth.FAILED, "fell off the bus", xid=79)
    assert probe.wait_events(0) == (
        HealthEvent(uuid, DeviceHealth.FAILED, "fell off the bus (XID 79)", 79),
    )
    assert probe.wait_events(0) == ()
    set_health(tmp_path, 3, DeviceHealth.OK)
    assert probe.wait_events(0) == (HealthEvent(uuid, DeviceHealth.OK, ""),)


def test_a_waiting_thread_hears_of_a_failure_when_it_happens(
    probe: SimulatedProbe, tmp_path: Path
) -> None:
    heard: list[HealthEvent] = []

    def listen() -> None:
        while not heard:  # the directory also reports the file before it is renamed into place
            heard.extend(probe.wait_events(60))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    set_health(tmp_path, 0, DeviceHealth.FAILED, "XID 79")
    listener.join(30)
    assert [event.health for event in heard] == [DeviceHealth.FAILED]


FOR_EVER = 3600


def test_closing_wakes_a_waiting_thread(probe: SimulatedProbe) -> None:
    listener = threading.Thread(target=probe.wait_events, args=(FOR_EVER,), daemon=True)
    listener.start()
    probe.close()
    listener.join(60)
    assert not listener.is_alive()
    told: list[tuple[HealthEvent, ...]] = []
    later = threading.Thread(target=lambda: told.append(probe.wait_events(FOR_EVER)), daemon=True)
    later.start()
    later.join(60)
    assert told == [()], "a closed probe does not wait"


def test_a_machine_without_a_control_directory_never_fails() -> None:
    probe = SimulatedProbe(parse_sim("T4")[0])
    assert probe.wait_events(0) == ()
    assert [d.health for d in probe.scan().devices] == [DeviceHealth.OK]
    probe.close()


def test_a_control_directory_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot watch"):
        SimulatedProbe(parse_sim("T4")[0], tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["{", "[]", '{"0": {"health": "poorly"}}', '{"0": 3}'])
def test_a_control_file_that_is_not_understood_is_an_error_and_not_a_healthy_card(
    probe: SimulatedProbe, tmp_path: Path, text: str
) -> None:
    (tmp_path / "health.json").write_text(text)
    with pytest.raises(BadMachine, match=r"health\.json"):
        probe.health()
