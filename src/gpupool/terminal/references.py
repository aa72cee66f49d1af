"""Turn what a user typed to name a thing into a path: nothing typed can reach another route."""

from __future__ import annotations

from gpupool.base.errors import NotFound
from gpupool.client.messages import path_segment

#: Signs of names and ids (`base.ids`), and the colon of node:index.
_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


def quote_segment(typed: str, what: str) -> str:
    """Return the name as one segment of a path.

    Raises:
        NotFound: Nothing can have this name.
    """
    # 128 signs are the longest name that the API takes; `.` and `..` are other paths to HTTP.
    if not typed or len(typed) > 128 or not _SIGNS.issuperset(typed) or typed.strip(".") == "":
        shown = typed if len(typed) <= 80 else typed[:77] + "..."
        raise NotFound(f"no {what} {shown!r}")
    return path_segment(typed)


def job_path(typed: str) -> str:
    """Return the path of a job."""
    return f"jobs/{quote_segment(typed, 'job')}"
