"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.client.transport import Api

#: Items of a page.
PAGE = 1000


def iterate_items(
    api: Api, path: str, query: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """All items of a list, a page of 1000 at a time."""
    after = None
    while True:
        page = api.request("GET", path, query={**(query or {}), "limit": PAGE, "after": after})
        yield from page["items"]
        after = page["next"]
        if after is None:
            return


def list_first(
    api: Api, path: str, query: Mapping[str, Any] | None = None, limit: int = 100
) -> tuple[list[dict[str, Any]], bool]:
    """The first `limit` items, and whether there are more."""
    found: list[dict[str, Any]] = []
    after = None
    while len(found) < limit:
        asked = {**(query or {}), "limit": min(PAGE, limit - len(found)), "after": after}
        page = api.request("GET", path, query=asked)
        found += page["items"]
        after = page["next"]
        if after is None:
            return found, False
    return found, True
