"""The whole event log of a pool, for commands that replay it; only an admin sees the jobs of all tenants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.base.errors import NotAllowed
from gpupool.cli.context import Context
from gpupool.model.tenant import Permission

PAGE = 1000


def policy_of(context: Context) -> str:
    """The policy by which the pool places. Raises NotAllowed for a caller who does not see its whole log."""
    pool = context.api.request("GET", "pool")
    caller = context.api.request("GET", "whoami")
    if Permission.MANAGE_POOL not in caller["permissions"]:
        raise NotAllowed(
            "only an admin sees the jobs of all tenants, and one tenant's do not tell why they waited",
            hint="ask an admin of the pool",
        )
    return str(pool["policy"])


def pages_of(context: Context) -> Iterator[list[dict[str, Any]]]:
    """Events from the first to the last, some at a time."""
    after = 0
    while page := context.api.request("GET", "events", query={"after": after, "limit": PAGE}):
        yield page
        after = page[-1]["seq"]
