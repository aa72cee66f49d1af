"""Stores the MIG mode of simulated cards, as the memory of a real board does.

A card without a file is in the mode that its machine was described with. Each card has a file of its
own, so that two cards are switched at the same time without a lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.model.device import CardMode, Device
from gpupool.probes.nvml.instance_calls import MigMode


@dataclass(frozen=True)
class SimulatedModeStore:
    """`<folder>/<uuid>.json` for each card that was switched.

    Attributes:
        folder: a directory that only the agent writes.
    """

    folder: Path

    def read_mode(self, card: str) -> MigMode | None:
        """Return the mode of a card that was switched; None for any other."""
        try:
            text = self._locate(card).read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        return MigMode(**json.loads(text))

    def write_mode(self, card: str, mode: MigMode) -> None:
        """Write the mode of a card; it is on disk when this returns."""
        make_directory_durably(self.folder)
        write_durably(self._locate(card), json.dumps(asdict(mode)).encode(), mode=0o600)

    def reset_card(self, card: str) -> None:
        """Do what a reset does: the pending mode becomes the current one. Idempotent."""
        mode = self.read_mode(card)
        if mode is not None and mode.current != mode.pending:
            self.write_mode(card, MigMode(mode.pending, mode.pending))

    def mark_modes(self, devices: Iterable[Device]) -> tuple[Device, ...]:
        """Return simulated cards in the modes that they were switched to."""
        # One look at the folder: a simulated pool may have 100,000 cards, and few are switched.
        switched = {path.stem for path in self.folder.glob("*.json")}
        marked = []
        for device in devices:
            partitioned = device.partitioned
            if device.uuid in switched:
                mode = self.read_mode(device.uuid)
                partitioned = partitioned if mode is None else mode.current
            shown = CardMode.MIG if partitioned else CardMode.PLAIN
            marked.append(replace(device, partitioned=partitioned, mode=shown))
        return tuple(marked)

    def _locate(self, card: str) -> Path:
        return self.folder / f"{card}.json"
