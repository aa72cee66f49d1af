"""What `gpupool doctor` says of a machine without a running pool."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.unit.host.conftest import LeftStep


def read_drivers(step: LeftStep) -> list[str]:
    command = [sys.executable, "-m", "gpupool.host", "--state-dir", str(step.paths.root), "--facts"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    checks = json.loads(done.stdout)["checks"]
    return [check["text"] for check in checks if check["name"] == "driver"]


def test_the_driver_is_not_looked_at_while_a_card_is_switched(left_step: LeftStep) -> None:
    switching = "a card is being switched, which a look at the driver would disturb"
    assert read_drivers(left_step) == [switching]
    left_step.end()
    (text, *_) = read_drivers(left_step)
    assert text != switching
