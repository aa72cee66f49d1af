"""Reads and writes a card's time slice: how long one program runs before the driver lets the next
one run.

Only `nvidia-smi compute-policy` can: the management library has no call for it. It needs root, a
card in compute mode DEFAULT, and is lost at a reboot.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.vendor_tool import NvidiaSmi, VendorTool

#: A row of the table that `-l` prints, whatever stands between the name and the value.
_ROW = re.compile(r"time-?\s?slice\W+(default|short|medium|long)\b", re.IGNORECASE)


class Timeslice(StrEnum):
    """The lengths, in the order of the numbers that the tool takes."""

    DEFAULT = "default"
    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


class TimesliceControl(Protocol):
    """Reads and writes the time slice of a card by its uuid. Raises ServiceUnavailable."""

    def read_timeslice(self, uuid: str) -> Timeslice: ...

    def write_timeslice(self, uuid: str, length: Timeslice) -> None: ...


class DriverTimeslices:
    """The time slices of this host's cards."""

    def __init__(self, tool: VendorTool | None = None) -> None:
        self._tool = tool or NvidiaSmi()

    def read_timeslice(self, uuid: str) -> Timeslice:
        answer = self._tool.run("compute-policy", "-i", uuid, "-l")
        row = _ROW.search(answer.text) if answer.success else None
        if row is None:
            raise ServiceUnavailable(
                f"The time slice of card {uuid} cannot be read: {answer.text or 'no output'}",
                hint=f"nvidia-smi compute-policy -i {uuid} -l",
            )
        return Timeslice(row.group(1).lower())

    def write_timeslice(self, uuid: str, length: Timeslice) -> None:
        """Set the time slice and read it back."""
        number = list(Timeslice).index(length)
        answer = self._tool.run("compute-policy", "-i", uuid, f"--set-timeslice={number}")
        now = self.read_timeslice(uuid)
        if now is not length:
            raise ServiceUnavailable(
                f"Card {uuid} did not take time slice {length}, it has {now}: {answer.text}",
                hint=f"as root: nvidia-smi compute-policy -i {uuid} --set-timeslice={number}",
            )
