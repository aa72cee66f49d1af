"""One job of a verification: waits for its load or its end, and reads what it has written."""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

from gpupool.base.errors import (
    ServiceUnavailable,
    WrongState,
)
from gpupool.client.transport import Api
from gpupool.verification.records import BurnRecord

#: States in which a job runs no more.
ENDED: Final = frozenset({"done", "failed", "stopped", "lost"})
#: The limit of every job; the longest check takes less.
LONGEST_SECONDS: Final = 180
#: How long a job may be silent beyond the time that its load takes.
PATIENCE_SECONDS: Final = 30.0
#: Bytes of a log read at once.
_PIECE: Final = 1 << 20

log = logging.getLogger(__name__)


class VerificationJob:
    """One job of a verification and what it has written."""

    def __init__(self, api: Api, job: dict[str, Any]) -> None:
        self._api = api
        self.job = job
        self.record = BurnRecord()
        self._offset = 0
        self._over = False

    @property
    def id(self) -> str:
        return str(self.job["id"])

    def read_log(self, wait_seconds: float) -> None:
        """Read what the job has written since; wait up to `wait_seconds` for something new."""
        query = {"offset": self._offset, "limit": _PIECE, "wait_seconds": wait_seconds}
        piece = self._api.request(
            "GET", f"jobs/{self.id}/logs", query=query, timeout=wait_seconds + 30
        )
        self.record.feed_output(b64decode(piece["data"]))
        self._offset = piece["next_offset"]
        self._over = piece["ended"]

    def await_line(
        self, condition: Callable[[BurnRecord], Any], what: str, seconds: float = PATIENCE_SECONDS
    ) -> Any:
        """Read the log until `condition` returns something true; return that.

        Raises:
            ServiceUnavailable: if the job ends before, or `seconds` pass.
        """
        deadline = time.monotonic() + seconds
        while True:
            found = condition(self.record)
            if found:
                return found
            left = deadline - time.monotonic()
            if self._over or left <= 0:
                raise self.build_silence_error(what)
            self.read_log(min(left, 10.0))

    def await_load(self, seconds: float) -> None:
        """Wait until the job has run its load for `seconds`."""

        def long_enough(record: BurnRecord) -> bool:
            series = record.list_stretches()
            return bool(series) and series[-1].end_ns - series[0].begin_ns >= seconds * 1e9

        self.await_line(long_enough, f"{seconds:g} s of its load", seconds + PATIENCE_SECONDS)

    def await_end(self, seconds: float = LONGEST_SECONDS) -> dict[str, Any]:
        """Wait for the job's end, read the rest of its log and return it as the pool has it.

        Raises:
            ServiceUnavailable: if it does not end in `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not self._over:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.build_silence_error("its end")
            self.read_log(min(left, 10.0))
        return self.fetch_job()

    def fetch_job(self) -> dict[str, Any]:
        """Fetch the job as the pool has it now."""
        self.job = self._api.request("GET", f"jobs/{self.id}")
        return self.job

    def stop_job(self) -> None:
        """Ask the pool to end the job; a job that has ended by itself is no error."""
        try:
            self._api.request("POST", f"jobs/{self.id}/stop", {"grace_seconds": 0})
        except WrongState:
            log.debug("%s had ended", self.id)

    def get_card(self) -> dict[str, Any]:
        """Wait for what the driver reported to the job first."""
        found: dict[str, Any] = self.await_line(
            lambda record: record.find_first("card"), "its first word on its card"
        )
        return found

    def build_silence_error(self, what: str) -> ServiceUnavailable:
        """Build the error of a job that has not done what was waited for.

        It says how the job ended, and quotes the last lines that it wrote beside its record.
        """
        job = self.fetch_job()
        ended = job["state"] if not job["reason"] else f"{job['state']}: {job['reason']}"
        quote = "; ".join([ended, *self.record.other[-3:]])
        return ServiceUnavailable(
            f"job {job['name']} never came to {what} ({quote[:400]})",
            hint=f"gpupool logs {job['name']}",
        )
