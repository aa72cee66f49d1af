"""What a user typed to name a thing, as a path: nothing typed can reach another route."""

from __future__ import annotations

from gpupool.base.errors import NotFound
from gpupool.client.messages import path_segment

_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


def segment(typed: str, what: str) -> str:
    """The name as one segment of a path. Raises NotFound for what no such thing can be called."""
    if not typed or len(typed) > 128 or not _SIGNS.issuperset(typed) or typed.strip(".") == "":
        shown = typed if len(typed) <= 80 else typed[:77] + "..."
        raise NotFound(f"no {what} {shown!r}")
    return path_segment(typed)


def job_path(typed: str) -> str:
    return f"jobs/{segment(typed, 'job')}"
