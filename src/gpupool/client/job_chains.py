"""Dependencies and retries of a submission, from their text."""

from __future__ import annotations

from gpupool.base.errors import BadDependency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: Values of `model.dependency.DependencyCondition`, without its import.
CONDITIONS = ("ok", "any", "fail")
#: As `model.dependency.MAX_DEPENDENCIES`.
_MOST = 64


def parse_dependencies(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse `prep`, `prep:any` and `prep,load:fail`. Raises BadDependency."""
    found = list[dict[str, Any]]()
    for text in texts:
        for part in text.split(","):
            found.append(_parse_dependency(part.strip(), text))
    if len(found) > _MOST:
        raise BadDependency(
            f"--after names {len(found)} jobs, {_MOST} are possible",
            hint="submit jobs that are alike as one array, and wait for the array",
        )
    return found


def _parse_dependency(part: str, text: str) -> dict[str, Any]:
    job, colon, condition = part.partition(":")
    if not job:
        raise BadDependency(
            f"--after {text!r} names no job", hint="write --after JOB or --after JOB:any"
        )
    if colon and condition not in CONDITIONS:
        raise BadDependency(
            f"--after {part}: got {condition!r}, expected ok, any or fail",
            hint=f"write --after {job}:any to wait for any end",
        )
    return {"job": job, "condition": condition or "ok"}
