"""Keeps XIDs on disk until the server has them: an agent that is killed in between loses none.

A driver tells an XID once. One small file for each is written before it is queued, and removed once
the server has answered; a new agent reports what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gpupool.base.durable import open_replacement
from gpupool.wire.faults.incidents import CardFaultIn

#: XIDs that wait for the server at most; a card that is ill may report thousands a minute.
MOST_WAITING: Final = 1000

log = logging.getLogger(__name__)


class FaultJournal:
    """The XIDs of one agent that the server does not have yet. Every verb is idempotent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, fault: CardFaultIn) -> None:
        """Keep an XID. One that cannot be written is reported all the same, by its caller."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_replacement(self._locate(fault)) as file:
                file.write(fault.model_dump_json().encode())
        except OSError as error:
            log.warning("XID %d of card %s is not kept on disk: %s", fault.xid, fault.uuid, error)

    def remove(self, faults: Iterable[CardFaultIn]) -> None:
        """Forget XIDs that the server has. One that stays is reported again by the next agent."""
        for fault in faults:
            _remove_file(self._locate(fault))

    def read(self) -> list[CardFaultIn]:
        """Return what is left of an earlier agent, the oldest first.

        Of more than `MOST_WAITING` the newest; the others are removed, as what cannot be read is.
        """
        paths = sorted(self._folder.glob("*.json"), key=_read_instant)
        old = paths[:-MOST_WAITING]
        if old:
            log.error("the oldest XIDs are dropped, %d: too many wait", len(old))
        # An agent that is killed while it writes leaves a file that has no name of its own yet.
        for path in (*old, *self._folder.glob("*.new")):
            _remove_file(path)
        found = []
        for path in paths[-MOST_WAITING:]:
            try:
                found.append(CardFaultIn.model_validate_json(path.read_bytes()))
            except (OSError, ValidationError) as error:
                log.warning("%s is dropped: it cannot be read: %s", path, error)
                _remove_file(path)
        return sorted(found, key=lambda fault: fault.at_ns)

    def _locate(self, fault: CardFaultIn) -> Path:
        # A uuid is the driver's text: it names no other folder.
        card = "".join(letter if letter.isalnum() else "-" for letter in fault.uuid)
        return self._folder / f"{fault.at_ns}-{fault.xid}-{card}.json"


def _read_instant(path: Path) -> tuple[int, str]:
    """Read when the XID of a file was; of a foreign file 0."""
    at_ns = path.name.partition("-")[0]
    return (int(at_ns) if at_ns.isdecimal() else 0, path.name)


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is not removed: %s", path, error)
