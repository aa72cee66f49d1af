"""The XIDs of NVIDIA's driver, each with what NVIDIA says of it and what gpupool does.

`xids.csv` is the only place that knows them. Codes, mnemonics and both buckets are from NVIDIA's XID
catalogue (docs.nvidia.com/deploy/xid-errors, state of 2025-10-29), which has no bucket yet for 162
to 172. Actions and meanings are gpupool's own.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from gpupool.model.faults.actions import Containment, Repair


class XidMark(StrEnum):
    """What is special about an XID."""

    NONE = ""
    #: It reports what another XID did, and is blamed only where there is no other.
    FOLLOWS = "follows"
    #: One is harmless, and repeats are a sign of a card that wears out.
    COUNTED = "counted"
    #: The driver's recovery action decides where there is one: sources differ about this XID.
    DRIVER_DECIDES = "driver-decides"


@dataclass(frozen=True)
class XidEntry:
    """One XID.

    Attributes:
        immediate: NVIDIA's bucket for what to do at once; empty where it names none.
        investigate: NVIDIA's bucket for what to look into afterwards; empty likewise.
        containment: What the pool does, so that no other work is harmed.
        repair: What makes the card well again, for a person to decide.
        meaning: What happened, for people.
    """

    code: int
    mnemonic: str
    immediate: str
    investigate: str
    containment: Containment
    repair: Repair
    mark: XidMark
    meaning: str


@cache
def read_xids() -> Mapping[int, XidEntry]:
    """Return the catalogue by code. Read once."""
    text = files(__package__).joinpath("xids.csv").read_text(encoding="utf-8")
    entries = {}
    for row in csv.DictReader(text.splitlines()):
        entry = XidEntry(
            code=int(row["code"]),
            mnemonic=row["mnemonic"],
            immediate=row["immediate"],
            investigate=row["investigate"],
            containment=Containment(row["containment"]),
            repair=Repair(row["repair"]),
            mark=XidMark(row["mark"]),
            meaning=row["meaning"],
        )
        entries[entry.code] = entry
    return entries
