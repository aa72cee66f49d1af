"""What a CUDA context costs on a card, and what its driver rounds allocations up to: measured, or a careful guess.

The fence charges a context before it exists, so a figure too small lets a share grow by the difference per process,
one too large takes a little memory from every process. The guesses are the upper end of what is commonly seen; figures
measured on a node's own cards and driver (`gpupool verify`) are put in `calibration.json` of the agent's state and win:
`{"version": 1, "cards": {"H200": {"context_bytes": 555745280, "granule_bytes": 2097152}}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import StateUnusable
from gpupool.model.device import Device

FILE: Final = "calibration.json"
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Calibration:
    """Bytes. `measured` is false for a guess."""

    context_bytes: int
    granule_bytes: int = 2 * _MIB
    measured: bool = False


# By the card's major compute capability: later cards have more multiprocessors, and a context has memory for each.
_GUESSES: Final[Mapping[int, int]] = {5: 160 * _MIB, 6: 220 * _MIB, 7: 320 * _MIB, 8: 450 * _MIB, 9: 640 * _MIB}
_UNKNOWN: Final = Calibration(512 * _MIB)


def calibration_of(device: Device, state_dir: Path) -> Calibration:
    """The figures for a card. Raises StateUnusable when the file is there and cannot be understood."""
    known = _measured(state_dir / FILE).get(device.model)
    if known is not None:
        return known
    if device.compute_capability is None:
        return _UNKNOWN
    newest = max(_GUESSES)
    guess = _GUESSES.get(min(device.compute_capability[0], newest), _UNKNOWN.context_bytes)
    return Calibration(guess if device.compute_capability[0] <= newest else guess + 128 * _MIB)


def _measured(path: Path) -> dict[str, Calibration]:
    try:
        entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {
            model: Calibration(int(one["context_bytes"]), int(one["granule_bytes"]), True)
            for model, one in entry["cards"].items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateUnusable(f"{path} cannot be understood: {problem}", hint="remove it, or measure again") from problem
