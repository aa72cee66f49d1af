"""Output of xpu-smi as Intel's guide and sources show it."""

import json

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.probes.intel.xpu_smi import (
    XpuStatistics,
    parse_detail,
    parse_discovery,
    parse_statistics,
)
from tests.support.tool_outputs import XPU_SMI_DETAIL, XPU_SMI_DISCOVERY, XPU_SMI_STATS


def test_a_card_is_found_by_its_address() -> None:
    (card,) = parse_discovery(XPU_SMI_DISCOVERY)
    assert card.address == "0000:4d:00.0"
    assert card.product == "Intel(R) Graphics [0x020a]"
    assert card.uuid == "00000000-0000-0000-0000-020a00008086"
    assert card.memory_bytes is None


def test_the_details_have_size_and_driver() -> None:
    card = parse_detail(XPU_SMI_DETAIL)
    assert card is not None
    assert (card.memory_bytes, card.driver_version) == (32768 << 20, "16929133")


def test_virtual_functions_are_left_out() -> None:
    document = json.loads(XPU_SMI_DISCOVERY)
    document["device_list"][0]["device_function_type"] = "virtual"
    assert parse_discovery(json.dumps(document)) == ()


def test_figures_of_one_tile_are_the_cards() -> None:
    assert parse_statistics(XPU_SMI_STATS) == XpuStatistics(0, round(229.1875 * 2**20), 45, 53, 0)


def test_figures_of_several_tiles_are_joined() -> None:
    tiles: list[dict[str, object]] = []
    for use, used, heat, errors in ((10, 100, 40, 0), (30, 50, 44, 2)):
        metrics = {
            "XPUM_STATS_GPU_UTILIZATION": use,
            "XPUM_STATS_MEMORY_USED": used,
            "XPUM_STATS_GPU_CORE_TEMPERATURE": heat,
            "XPUM_STATS_RAS_ERROR_CAT_CACHE_ERRORS_UNCORRECTABLE": errors,
        }
        entries = [{"metrics_type": name, "value": value} for name, value in metrics.items()]
        tiles.append({"tile_id": len(tiles), "data_list": entries})
    text = json.dumps({"device_id": 0, "device_level": [], "tile_level": tiles})
    assert parse_statistics(text) == XpuStatistics(20, 150 << 20, None, 44, 2)


@pytest.mark.parametrize("text", ["", "Error: no device", "[]", '{"error": "x"}', '{"a": null}'])
def test_other_output_says_nothing(text: str) -> None:
    assert parse_discovery(text) == ()
    assert parse_detail(text) is None
    assert parse_statistics(text) == XpuStatistics()


@pytest.mark.parametrize(
    ("errors", "health"),
    [(None, DeviceHealth.UNKNOWN), (0, DeviceHealth.OK), (3, DeviceHealth.WARNING)],
)
def test_health_follows_the_error_counters(errors: int | None, health: DeviceHealth) -> None:
    found, reason = XpuStatistics(uncorrected_errors=errors).judge_health()
    assert found is health
    assert bool(reason) == (health is not DeviceHealth.OK)
