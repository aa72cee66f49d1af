"""What a CUDA context costs on a card, and what its driver rounds allocations up to: measured, or a careful guess.

The fence charges a context before it exists, so a figure too small lets a share grow by the difference per process,
one too large takes a little memory from every process. The guesses are the upper end of what is commonly seen; figures
measured on a node's own cards and driver (`gpupool verify --calibrate FILE`) are put in `calibration.json` of the
agent's state and win: `{"version": 1, "cards": {"H200": {"context_bytes": 555745280, "granule_bytes": 2097152}}}`. An
entry may have more than that, which is kept and not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import StateUnusable
from gpupool.model.device import Device

FILE: Final = "calibration.json"
VERSION: Final = 1
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


def record(path: Path, model: str, figures: Mapping[str, Any]) -> None:
    """Put a model's figures into the file at `path`, beside other models', made if need be; whole or not at all.

    `figures`: context_bytes, granule_bytes, and whatever else is worth keeping. Raises StateUnusable for a file that is
    something else, and where it cannot be written.
    """
    cards = {**_cards(path), model: dict(figures)}
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.write_text(json.dumps({"version": VERSION, "cards": cards}, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise StateUnusable(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _measured(path: Path) -> dict[str, Calibration]:
    return {
        model: Calibration(int(one["context_bytes"]), int(one["granule_bytes"]), True)
        for model, one in _cards(path).items()
    }


def _cards(path: Path) -> dict[str, dict[str, Any]]:
    """By model; empty without a file. Raises StateUnusable for what no fence could charge by."""
    try:
        entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if entry["version"] != VERSION:
            raise ValueError(f"version {entry['version']}, {VERSION} is known")
        cards: dict[str, dict[str, Any]] = entry["cards"]
        for model, one in cards.items():
            if int(one["context_bytes"]) < 0 or int(one["granule_bytes"]) <= 0:
                raise ValueError(f"{model}: no such sizes")
        return cards
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateUnusable(f"{path} cannot be read: {error.strerror}", hint="name another file") from error
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateUnusable(f"{path} cannot be understood: {problem}", hint="remove it, or measure again") from problem
