"""What a card and its driver cost, measured without a fence: the context, the granule, a launch, an
event.

The document is a `calibration.json`, as `gpupool verify --calibrate` makes it and an agent reads
it, with more beside what the fence charges by. Needs the card for itself.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpupool.burn.costs import measure_costs
from gpupool.mechanisms.calibration import record_figures
from gpupool.model.catalogue import canonical_model


def calibrate(launches: Path, out: Path) -> dict[str, Any]:
    """Put the first card's figures into the file `out`, and give them. `launches` is
    bench/gpu/launches.c, compiled.

    Raises ServiceUnavailable.
    """
    driver, costs = measure_costs()
    identity = driver.describe_card()
    figures = {
        **asdict(costs),
        "total_bytes": identity["memory_bytes"],
        "driver_version": identity["driver_version"],
        **json.loads(subprocess.run([launches], capture_output=True, text=True, check=True).stdout),
    }
    driver.close()
    record_figures(out, canonical_model(identity["card"]), figures)
    return figures
