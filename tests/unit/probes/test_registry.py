"""Finding the probe for this host: run against the machine the tests are on, with and without a
stand-in driver.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

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
