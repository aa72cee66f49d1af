"""Plans how a user's Podman reaches files of the agent that the user cannot reach by path.

The supervisor mounts directories in the job's own mount namespace, directly below the base of its
private mounts. So a file is reached through its directory. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.contract import HostMount


@dataclass
class Staging:
    """The staged directories of one job.

    Attributes:
        base: Directory of the job's private mounts.
        is_directory: Whether a path of the host is a directory.
    """

    base: str
    is_directory: Callable[[Path], bool] = Path.is_dir
    _targets: dict[tuple[Path, bool], str] = field(default_factory=dict)

    def stage_path(self, path: Path, *, writable: bool = False) -> Path:
        """Return the path at which the job sees a file or directory of the host."""
        if self.is_directory(path):
            return Path(self._stage_directory(path, writable))
        return Path(self._stage_directory(path.parent, writable)) / path.name

    def stage_mounts(self, mounts: Iterable[HostMount]) -> tuple[HostMount, ...]:
        """Return mounts with the sources that the job sees."""
        staged = []
        for mount in mounts:
            source = self.stage_path(mount.source, writable=mount.writable)
            staged.append(HostMount(source, mount.target, mount.writable))
        return tuple(staged)

    def list_binds(self) -> tuple[HostMount, ...]:
        """List what the supervisor must mount."""
        found = []
        for (source, writable), target in self._targets.items():
            found.append(HostMount(source, target, writable))
        return tuple(found)

    def _stage_directory(self, directory: Path, writable: bool) -> str:
        key = directory, writable
        if key not in self._targets:
            self._targets[key] = f"{self.base}/stage-{len(self._targets)}"
        return self._targets[key]
