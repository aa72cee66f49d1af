"""Keeps on disk how far the switch of a card into MIG mode or out of it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.mechanisms.mig.driver import MigMode
from gpupool.model.device import CardMode


class MigSwitchRecord:
    """`<state>/modes/<card>.json`: the mode before, and how far the switch is.

    Flags: `resetting` while a reset runs, `entered` from the end of the entry on, `leaving` while the
    card is on the way out. Records of 0.1.0 have no `leaving`.
    """

    def __init__(self, state_dir: Path, card: str) -> None:
        self.folder = state_dir / "modes"
        self._path = self.folder / f"{card}.json"

    def read_before(self) -> MigMode | None:
        document = self._read()
        return None if document is None else MigMode(**document["before"])

    def is_leaving(self) -> bool:
        document = self._read()
        return document is not None and bool(document.get("leaving"))

    def is_restorable(self, found: CardMode) -> bool:
        """Whether a card that was found in a mode is to be in this one.

        One that has reached it counts too, where an agent was killed before it wrote that down.
        Switches of other kinds write records of their own at the same place.
        """
        document = self._read()
        if document is None or document.get("mode") != CardMode.MIG or document.get("leaving"):
            return False
        return bool(document["entered"]) or found is CardMode.MIG

    def is_resetting(self) -> bool:
        document = self._read()
        return document is not None and bool(document["resetting"])

    def write_before(self, before: MigMode) -> None:
        """Write what was there; what an earlier attempt wrote is kept."""
        if self._read() is None:
            document = {"mode": str(CardMode.MIG), "before": asdict(before)}
            self._write({**document, "resetting": False, "entered": False, "leaving": False})

    def change(self, **flags: bool) -> None:
        """Set flags of the record; does nothing where there is none or it has them."""
        document = self._read()
        if document is not None and {**document, **flags} != document:
            self._write({**document, **flags})

    def abandon(self, wanted: bool) -> None:
        """Forget an attempt that changed nothing; a card that was switched before stays on record."""
        document = self._read()
        if wanted and document is not None and not document["entered"]:
            self.remove()
        else:
            self.change(resetting=False, leaving=False)

    def remove(self) -> None:
        """Remove the record, and a first one that was killed before it had its name. Idempotent."""
        self._path.with_name(f"{self._path.name}.new").unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any] | None:
        try:
            document: dict[str, Any] = json.loads(self._path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        return document

    def _write(self, document: dict[str, Any]) -> None:
        make_directory_durably(self.folder)
        write_durably(
            self._path, json.dumps({"version": 1, **document}, sort_keys=True).encode(), mode=0o600
        )
