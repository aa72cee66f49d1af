"""Keeps the output of jobs within the node's quota of logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.supervisor.log_quota import LogLook, LogQuota, judge_logs
from gpupool.base.health import CheckFinding, well

#: Seconds at least between two looks at the logs: a look is one stat for each segment of each job.
TRIM_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class LogTrimmer:
    """Drops the oldest output above the quota. Belongs to the agent's work thread."""

    def __init__(
        self,
        directories: JobDirectories,
        quota: LogQuota,
        *,
        jobs: Path,
        clock: Callable[[], float],
        heartbeat_seconds: float,
    ) -> None:
        """Make the trimmer.

        Args:
            directories: The directories of jobs.
            quota: The bytes of output to keep.
            jobs: A path on the file system whose size bounds the default quota.
            clock: Monotonic seconds.
            heartbeat_seconds: The agent looks at the logs at least so often.
        """
        self._directories = directories
        self._quota = quota
        self._jobs = jobs
        self._clock = clock
        self._pause_seconds = min(TRIM_SECONDS, heartbeat_seconds)
        self._last_trim = clock()
        self._last_look: LogLook | None = None

    def trim_if_due(self) -> None:
        """Trim the logs if the last look was long enough ago."""
        if self._clock() - self._last_trim >= self._pause_seconds:
            self._last_trim = self._clock()
            self.trim()

    def trim(self) -> None:
        """Drop the output above the quota. Blocks for one stat a segment.

        A disk that fails is logged and looked at again: the agent goes on with its work.
        """
        try:
            pool_bytes, user_bytes = self._quota.bounds(self._jobs)
            look = self._directories.trim_logs(pool_bytes, user_bytes)
        except OSError as error:
            log.warning("logs could not be held to their quota: %s", error)
            return
        self._last_look = look
        if look.dropped:
            log.warning("%d bytes of job output were dropped: over the quota of logs", look.dropped)

    def check_quota(self) -> CheckFinding:
        """Return whether the output was within its quota at the last look. Thread-safe."""
        look = self._last_look
        return well("not looked at yet") if look is None else judge_logs(look)
