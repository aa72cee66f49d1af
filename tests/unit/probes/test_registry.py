"""Finding the probe for this host: run against the machine the tests are on, with and without a
stand-in driver.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from gpupool.model.catalogue import VENDORS
from gpupool.probes.pci import VENDORS as ON_THE_BUS
from gpupool.probes.registry import PROBES, list_probes
from tests.support.recorded_hosts import add_card

SCRIPT = """
import json
from gpupool.probes.registry import find_first_available
probe, answers = find_first_available()
print(json.dumps([probe and probe.name, {name: [a.ok, a.reason] for name, a in answers.items()}]))
"""


def find(**environment: str) -> list[object]:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_driver_with_cards_is_taken(library: Path) -> None:
    assert find(LD_LIBRARY_PATH=str(library)) == ["nvml", {"nvml": [True, ""]}]


def test_a_driver_that_does_not_start_is_not_taken_and_says_why(library: Path) -> None:
    probe, answers = find(LD_LIBRARY_PATH=str(library), FAKE_NVML_SCENE="mismatched")
    assert probe is None
    assert isinstance(answers, dict)
    assert answers["nvml"][0] is False
    assert "reboot" in answers["nvml"][1]


def test_the_probe_of_a_maker_is_tried_where_its_card_is_on_the_bus(tmp_path: Path) -> None:
    assert list(list_probes(tmp_path / "sys")) == ["nvml"]
    attributes = {"class": "0x120000", "device": "0xd802"}
    add_card(tmp_path, "0000:c1:00.0", "devdrv", vendor="0x19e5", **attributes)
    add_card(tmp_path, "0000:c2:00.0", "amdgpu", vendor="0x1002", **attributes)
    # Graphics within a processor.
    add_card(tmp_path, "0000:00:02.0", "i915", vendor="0x8086", **attributes)
    # NVIDIA's comes first, as it did when it was the only one.
    assert list(list_probes(tmp_path / "sys")) == ["nvml", "amd", "ascend"]


def test_every_maker_on_the_bus_has_a_probe_and_a_name_for_limits() -> None:
    makers = set(ON_THE_BUS.values())
    assert makers <= VENDORS
    assert makers - {"nvidia"} == set(PROBES) - {"nvml"}


def test_each_probe_says_why_it_cannot_work_here() -> None:
    for name, make in PROBES.items():
        probe = make()
        available = probe.available()
        assert available.ok or available.reason, name
        probe.close()
        probe.close()
