"""Reads jobs' output for the server's routes from the job directories of this machine's agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpupool.agent.supervisor.job_log import log_end, log_files, read_log
from gpupool.allocations.routes.logs import LogChunk
from gpupool.host.state.file_watch import await_directory_change


class LocalLogs:
    """Reads logs below the agent's `jobs` directory.

    The routes have resolved a job id before: here it is a file name and nothing else.
    """

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs

    def read(self, job: str, offset: int, limit: int) -> LogChunk | None:
        """Read from an offset (negative: from the end); None where the job has no log yet."""
        directory = self._jobs / job
        try:
            if not log_files(directory):
                return None
            if offset < 0:
                offset = max(0, _read_length(directory) + offset)
            chunk = read_log(directory, offset, limit)
        except FileNotFoundError:
            return None
        return LogChunk(chunk.data, chunk.offset, chunk.next_offset, chunk.dropped_bytes)

    async def wait_for_change(self, job: str, known: int, seconds: float) -> None:
        """Return when the job's directory changes, or after the time.

        At once where the log has bytes behind the `known` ones already.
        """
        directory = self._jobs / job
        try:
            await await_directory_change(directory, seconds, lambda: log_end(directory) > known)
        except FileNotFoundError:
            # The directory is not there yet. The caller also waits for the job's next state.
            await asyncio.sleep(seconds)


def _read_length(directory: Path) -> int:
    # The last segment is named by the offset of its first byte.
    last = log_files(directory)[-1]
    return int(last.name.rpartition(".")[2]) + last.stat().st_size
