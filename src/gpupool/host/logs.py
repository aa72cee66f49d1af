"""Jobs' output as the server's routes read it: from the job directories of the agent on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpupool.agent.job_log import log_files, read_log
from gpupool.allocations.log_routes import Chunk
from gpupool.host.watching import directory_changed


class LocalLogs:
    """Reads below the agent's `jobs` directory; a job id is a name there and nothing else (the routes resolve it)."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs

    def read(self, job: str, offset: int, limit: int) -> Chunk | None:
        """From the offset (negative: from the end); None where the job has no log (yet)."""
        directory = self._jobs / job
        try:
            if not log_files(directory):
                return None
            if offset < 0:
                offset = max(0, _length(directory) + offset)
            chunk = read_log(directory, offset, limit)
        except FileNotFoundError:
            return None
        return Chunk(chunk.data, chunk.offset, chunk.next_offset, chunk.dropped_bytes)

    async def changed(self, job: str, seconds: float) -> None:
        """Return when the job's directory changes, or after the time. A job without one is not there yet."""
        try:
            await directory_changed(self._jobs / job, seconds)
        except FileNotFoundError:
            await asyncio.sleep(seconds)  # the caller waits for the job's next state beside this


def _length(directory: Path) -> int:
    """One past the log's last byte: the last segment is named by its first byte's offset."""
    last = log_files(directory)[-1]
    return int(last.name.rpartition(".")[2]) + last.stat().st_size
