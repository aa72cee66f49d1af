"""A driver with memory limits by cgroup that answers as a test says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from gpupool.probes.memory_limits import MemoryLimit


@dataclass
class ScriptedDriver:
    """A driver that keeps limits, and answers as the test says."""

    absence: str = ""
    refusal: str = ""
    lowest: int = 0
    unreadable: bool = False
    limits: dict[tuple[str, Path], MemoryLimit] = field(default_factory=dict)
    used: dict[tuple[str, Path], int] = field(default_factory=dict)

    def explain_absence(self) -> str:
        return self.absence

    def read_limit(self, uuid: str, group: Path) -> MemoryLimit | None:
        if self.unreadable or not group.is_dir():
            return None
        found = self.limits.get((uuid, group), MemoryLimit())
        return replace(found, used_bytes=self.used.get((uuid, group), 0))

    def set_limit(self, uuid: str, group: Path, limit: MemoryLimit) -> str:
        assert group.is_dir(), "limits are set on what exists"
        if not self.refusal:
            hard = max(limit.hard_bytes, self.lowest)
            self.limits[uuid, group] = replace(limit, hard_bytes=hard)
        return self.refusal

    def clear_limit(self, uuid: str, group: Path) -> str:
        self.limits.pop((uuid, group), None)
        return ""
