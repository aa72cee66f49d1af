"""The whole event log of a pool, for commands that replay it.

Only an admin sees the jobs of all tenants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.base.errors import NoPermission
from gpupool.model.tenant import Permission
from gpupool.terminal.context import CommandContext

#: Events a request; the most that the API gives.
PAGE = 1000


def read_policy(context: CommandContext) -> str:
    """Return the policy by which the pool places.

    Raises:
        NoPermission: The caller does not see the whole log.
    """
    pool = context.api.request("GET", "pool")
    caller = context.api.request("GET", "whoami")
    if Permission.MANAGE_POOL not in caller["permissions"]:
        raise NoPermission(
            "only an admin sees the jobs of all tenants, and one tenant's do not tell why they "
            "waited",
            hint="ask an admin of the pool",
        )
    return str(pool["policy"])


def read_pages(context: CommandContext) -> Iterator[list[dict[str, Any]]]:
    """Yield the events from the first to the last, some at a time."""
    after = 0
    while page := context.api.request("GET", "events", query={"after": after, "limit": PAGE}):
        yield page
        after = page[-1]["seq"]
