"""Reports on a descriptor what the start of a pool has come to."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from gpupool.base.errors import GpupoolError


@dataclass
class PoolReadiness:
    """State of the start, reported once on the descriptor that `gpupool up` reads."""

    fd: int | None
    agent_ready: bool = False
    #: Whether the process is to start again once the pool has stopped.
    again: bool = False

    def report_state(self, message: dict[str, object]) -> None:
        if self.fd is not None:
            # `gpupool up` may have been interrupted; the pool runs on.
            with contextlib.suppress(BrokenPipeError):
                os.write(self.fd, json.dumps(message).encode() + b"\n")
            os.close(self.fd)
            self.fd = None

    def report_failure(self, error: GpupoolError) -> None:
        self.report_state(
            {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        )
