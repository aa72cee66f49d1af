"""Routes of what a console shows of the whole pool. Thin: parse, ask, answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Header, Query, Request, Response

from gpupool.allocations.routes.dependencies import Reader, Service
from gpupool.api.late_routes import Router
from gpupool.wire.views.overviews import OverviewOut
from gpupool.wire.views.pool_map import CardShareOut, MapChangesOut, MapOut

router = Router(tags=["fleet"])
IfNoneMatch = Annotated[
    str | None, Header(max_length=1000, description="`ETag` of the answer before; 304: still so")
]

After = Annotated[
    str | None, Query(max_length=100, description="`cursor` of the answer that the caller has")
]


@router.get(
    "/map",
    response_model=MapOut | MapChangesOut,
    responses={304: {"description": "Nothing changed."}},
)
def get_map(
    request: Request,
    allocations: Service,
    caller: Reader,
    if_none_match: IfNoneMatch = None,
    after: After = None,
) -> Response:
    """Every card and every share, in columns: for a picture of the whole pool. With `after` only
    the cards that have changed since, or everything where that answer is not known any more."""
    changes = None if after is None else allocations.pool_map.read_changes(caller, after)
    if changes is not None:
        return Response(
            changes.model_dump_json(),
            headers={"Cache-Control": "no-store"},
            media_type="application/json",
        )
    found = allocations.pool_map.read_map(caller)
    # Private: another caller of the same proxy may see less. No store of it is used unasked.
    headers = {
        "ETag": f'"{found.tag}"',
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Authorization, Cookie",
    }
    if found.tag in _list_tags(if_none_match):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, headers=headers, media_type="application/json")
    return Response(found.body, headers=headers, media_type="application/json")


def _list_tags(header: str | None) -> Iterator[str]:
    for tag in (header or "").split(","):
        yield tag.strip().removeprefix("W/").strip('"')


def accepts_gzip(header: str) -> bool:
    """Whether a client accepts gzip, by its header Accept-Encoding.

    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("identity")
    (True, False, False)
    """
    for entry in header.split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@router.get("/overview")
def get_overview(allocations: Service, caller: Reader) -> OverviewOut:
    """The pool at one look: what is held and free, what waits, what is wrong, and the caller's own
    jobs."""
    return allocations.overviews.describe_pool(caller)


@router.get("/devices/{device}/shares")
def list_card_shares(device: str, allocations: Service, caller: Reader) -> list[CardShareOut]:
    """The shares of one card, the first that began first; jobs of other tenants have no name."""
    return allocations.pool_map.list_card_shares(device, caller)
