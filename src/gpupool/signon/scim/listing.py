"""Answers lists: the usual filters by an index, any other one by the library, page by page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.signon.scim.library import load_scim

Row = Any
#: Resources of one page at most, and of a pool that a filter without an index reads.
MOST_RESULTS: Final = 200
MOST_READ: Final = 20_000
_PARAMETERS: Final = (
    "filter",
    "sortBy",
    "sortOrder",
    "startIndex",
    "count",
    "attributes",
    "excludedAttributes",
)
#: What identity providers look a resource up by: Entra ID, Okta and Keycloak send nothing else.
_LOOKUP: Final = re.compile(
    r'^\s*(userName|externalId|displayName|id)\s+eq\s+"((?:[^"\\]|\\.)*)"\s*$', re.IGNORECASE
)


def parse_query(model: Any, parameters: Mapping[str, Any]) -> Any:
    """Parse the query of a list, or the body of a search. Raises pydantic's ValidationError."""
    request: Any = load_scim().SearchRequest.__class_getitem__(model)
    # Others, as a cache breaker of a proxy, are none of SCIM's.
    given = {name: parameters[name] for name in _PARAMETERS if name in parameters}
    return request.model_validate(given)


def parse_attributes(model: Any, parameters: Mapping[str, Any]) -> Any:
    """Parse which attributes an answer has. Raises pydantic's ValidationError."""
    wanted: Any = load_scim().ResponseParameters.__class_getitem__(model)
    names = ("attributes", "excludedAttributes")
    return wanted.model_validate({name: parameters[name] for name in names if name in parameters})


def find_lookup(request: Any, columns: Mapping[str, Any]) -> sa.ColumnElement[bool] | None:
    """Return the condition of a filter that an index answers; None: any other filter."""
    found = None if request.filter is None else _LOOKUP.match(str(request.filter))
    if found is None:
        return None
    column = columns.get(found.group(1).lower())
    if column is None:
        return None
    text = re.sub(r"\\(.)", r"\1", found.group(2))
    # userName is compared without regard to case, identifiers are not: RFC 7643, 4.1.1 and 3.1.
    is_folded = found.group(1).lower() == "username"
    condition: sa.ColumnElement[bool] = column == (text.lower() if is_folded else text)
    return condition


def build_page(
    request: Any, rows: Sequence[Row], build: Callable[[Sequence[Row]], list[Any]], *, matched: bool
) -> Any:
    """Build the answer of a list.

    Args:
        request: The parsed query.
        rows: Those that the query may be about.
        build: Makes resources of rows.
        matched: Whether the filter has chosen the rows already.
    """
    scim = load_scim()
    first = max(1, request.start_index or 1)
    count = MOST_RESULTS if request.count is None else max(0, min(request.count, MOST_RESULTS))
    if matched or request.filter is None:
        total = len(rows)
        resources = build(rows[first - 1 : first - 1 + count])
    else:
        if len(rows) > MOST_READ:
            raise scim.TooManyException(detail=f"{len(rows)} resources; filter by userName or id")
        found = [one for one in build(rows) if request.filter.match(one)]
        total = len(found)
        resources = found[first - 1 : first - 1 + count]
    # Of any resource: the library wants to know of which.
    answer: Any = scim.ListResponse.__class_getitem__(scim.User | scim.Group)
    return answer(
        total_results=total,
        start_index=first,
        items_per_page=len(resources),
        resources=resources,
    )
