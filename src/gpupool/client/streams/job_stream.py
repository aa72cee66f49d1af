"""Streams into running jobs, as commands open them."""

from __future__ import annotations

from typing import Any

from gpupool.client.messages import path_segment
from gpupool.client.streams.byte_connection import ByteConnection
from gpupool.client.transport import Api


def open_stream(api: Api, job: str, target: dict[str, Any]) -> ByteConnection:
    """Open a stream into a running job of the caller. Blocks until its target is open.

    Args:
        job: id, name or `last`.
        target: what it leads to, as the body of `POST /jobs/{job}/streams`.

    Raises:
        GpupoolError: the job is not there, does not run, is another user's, or the target cannot
            be opened.
    """
    prepared = api.request("POST", f"jobs/{path_segment(job)}/streams", target)
    return api.upgrade(f"streams/{path_segment(prepared['stream'])}")
