"""What an allocation is handed to. Facts only."""

from __future__ import annotations

from enum import StrEnum


class HostKind(StrEnum):
    """What the allocation is handed to."""

    PROCESS = "process"
    CONTAINER = "container"
    VM = "vm"
