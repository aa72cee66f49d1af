"""`npu-smi info` as Huawei's documents show it, in two layouts."""

from gpupool.model.device import DeviceHealth
from gpupool.probes.vendors.ascend import parse_info
from tests.support.tool_outputs import NPU_SMI, NPU_SMI_310


def test_cards_with_hbm_show_its_size_and_use() -> None:
    report = parse_info(NPU_SMI)
    first, second = report.cards
    assert report.driver_version == "24.1.RC2"
    assert (first.number, second.number) == (0, 1)
    assert (first.product, first.address) == ("Ascend xxx", "0000:c1:00.0")
    assert (first.memory_bytes, first.used_bytes) == (32768 << 20, 0)
    assert (first.power_watts, first.temperature_celsius, first.utilization_percent) == (70, 42, 0)


def test_the_column_health_is_the_cards_health() -> None:
    first, second = parse_info(NPU_SMI).cards
    assert (first.health, first.health_reason) == (DeviceHealth.OK, "")
    assert (second.health, second.health_reason) == (DeviceHealth.WARNING, "npu-smi says Warning")
    text = NPU_SMI.replace("Warning", "Alarm  ")
    assert parse_info(text).cards[1].health is DeviceHealth.FAILED
    text = NPU_SMI.replace("Warning", "-      ")
    assert parse_info(text).cards[1].health is DeviceHealth.UNKNOWN


def test_each_process_is_on_its_own_chip() -> None:
    first, second = parse_info(NPU_SMI).cards
    assert first.processes is not None
    assert second.processes is not None
    assert [process.pid for process in first.processes] == [37656, 37664]
    assert [(p.pid, p.memory_bytes) for p in second.processes] == [(37643, 686 << 20)]


def test_chips_of_one_board_have_the_numbers_of_their_files() -> None:
    cards = parse_info(NPU_SMI_310).cards
    assert [card.number for card in cards] == [3, 4]
    assert [card.address for card in cards] == ["0000:89:00.0", "0000:8a:00.0"]
    assert (cards[0].memory_bytes, cards[0].used_bytes) == (8192 << 20, 2703 << 20)
    # This output lists no processes.
    assert cards[0].processes is None


def test_other_output_has_no_cards() -> None:
    assert parse_info("").cards == ()
    assert (
        parse_info("DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi model initialized failed").cards
        == ()
    )
