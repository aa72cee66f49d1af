"""Provides the memory of a CUDA context and the allocation step of a card: measured, or guessed.

The fence charges a context before it exists. A figure that is too small lets a share grow by the
difference per process; one that is too large takes a little memory from every process. Figures
measured on a node's own cards and driver (`gpupool verify --calibrate FILE`) are in
`calibration.json` of the agent's state and win: `{"version": 1, "cards": {"H200":
{"context_bytes": 555745280, "granule_bytes": 2097152}}}`. Further fields are kept and not used.
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
class CardCalibration:
    """Figures of one card model, in bytes; `measured` is false for a guess."""

    context_bytes: int
    granule_bytes: int = 2 * _MIB
    measured: bool = False


#: Bytes of a context by the card's major compute capability, the upper end of what is common:
#: later cards have more multiprocessors, and a context has memory for each.
_GUESSES: Final[Mapping[int, int]] = {
    5: 160 * _MIB,
    6: 220 * _MIB,
    7: 320 * _MIB,
    8: 450 * _MIB,
    9: 640 * _MIB,
}
_UNKNOWN: Final = CardCalibration(512 * _MIB)


def find_calibration(device: Device, state_dir: Path) -> CardCalibration:
    """Return the figures for a card: measured ones if there are, else a guess.

    Raises:
        StateUnusable: the calibration file cannot be understood.
    """
    known = _read_measured(state_dir / FILE).get(device.model)
    if known is not None:
        return known
    if device.compute_capability is None:
        return _UNKNOWN
    # A card newer than the table gets the newest figure and a margin.
    newest = max(_GUESSES)
    guess = _GUESSES.get(min(device.compute_capability[0], newest), _UNKNOWN.context_bytes)
    return CardCalibration(guess if device.compute_capability[0] <= newest else guess + 128 * _MIB)


def record_figures(path: Path, model: str, figures: Mapping[str, Any]) -> None:
    """Write a model's figures into the file at `path`, beside those of other models. Atomic.

    Args:
        figures: context_bytes, granule_bytes, and whatever else is worth keeping.

    Raises:
        StateUnusable: the file is something else, or cannot be written.
    """
    cards = {**_read_cards(path), model: dict(figures)}
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.write_text(
            json.dumps({"version": VERSION, "cards": cards}, indent=1) + "\n", encoding="utf-8"
        )
        os.replace(temporary, path)
    except OSError as error:
        raise StateUnusable(
            f"{path} cannot be written: {error.strerror}", hint="name another file"
        ) from error


def _read_measured(path: Path) -> dict[str, CardCalibration]:
    measured = {}
    for model, one in _read_cards(path).items():
        context_bytes = int(one["context_bytes"])
        granule_bytes = int(one["granule_bytes"])
        measured[model] = CardCalibration(context_bytes, granule_bytes, measured=True)
    return measured


def _read_cards(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries by model; empty without a file.

    Raises:
        StateUnusable: an entry has sizes that no fence could charge by.
    """
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
        raise StateUnusable(
            f"{path} cannot be read: {error.strerror}", hint="name another file"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateUnusable(
            f"{path} cannot be understood: {problem}", hint="remove it, or measure again"
        ) from problem
