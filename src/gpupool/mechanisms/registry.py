"""The mechanisms this gpupool has, in the order they are tried: the first that does not refuse serves.

A mechanism is removed by deleting its file and its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupool.base.errors import Refused
from gpupool.mechanisms.contract import AllocationView, Mechanism
from gpupool.mechanisms.fence import Fence
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.share import Share
from gpupool.mechanisms.whole import Whole

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType({m.name: m for m in (Whole(), Fence(), Share())})


def on_record(allocation: str, state_dir: Path) -> Mechanism | None:
    """The mechanism that prepared an allocation, for undoing it; None where none has, or its note is damaged."""
    note = NoteBook(state_dir).find(allocation)
    return None if note is None else MECHANISMS[note.mechanism]


def choose(view: AllocationView) -> Mechanism:
    """The mechanism for an allocation. Raises Refused with every mechanism's reason when none serves it."""
    reasons: list[str] = []
    for mechanism in MECHANISMS.values():
        reason = mechanism.refuses(view)
        if not reason:
            return mechanism
        reasons.append(f"{mechanism.name}: {reason}")
    raise Refused(f"No mechanism can serve allocation {view.allocation}: {'; '.join(reasons)}")
