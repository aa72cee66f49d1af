"""Dependencies and retries of a submission, from their text."""

from __future__ import annotations

from gpupool.base.errors import BadDependency, BadRetry
from gpupool.base.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: Values of `model.chains.dependency.DependencyCondition`, without its import.
CONDITIONS = ("ok", "any", "fail")
#: As `model.chains.retry.MAX_RETRIES`.
_MOST_RETRIES = 100
#: As `model.chains.dependency.MAX_DEPENDENCIES`.
_MOST = 64


def parse_dependencies(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse `prep`, `prep:any` and `prep,load:fail`. Raises BadDependency."""
    found: list[dict[str, Any]] = []
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


def parse_retries(retries: str | int | None, backoff: str | None) -> dict[str, int]:
    """Parse `--retries 3` and `--retry-backoff 30s:10m`. Raises BadRetry, BadDuration."""
    text = str(retries or 0).strip()
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_RETRIES):
        raise BadRetry(
            f"--retries {text}: got no number from 0 to {_MOST_RETRIES}", hint="write --retries 3"
        )
    body = {"retries": int(text)}
    if backoff is None:
        return body
    if not body["retries"]:
        raise BadRetry("--retry-backoff without --retries", hint="add  --retries 3")
    first, colon, most = backoff.partition(":")
    body["retry_first_seconds"] = parse_duration(first)
    if colon:
        body["retry_most_seconds"] = parse_duration(most)
        if body["retry_most_seconds"] < body["retry_first_seconds"]:
            raise BadRetry(
                f"--retry-backoff {backoff}: the longest pause {most} is shorter than the first one",
                hint=f"write --retry-backoff {most}:{first}",
            )
    else:
        body["retry_most_seconds"] = max(600, body["retry_first_seconds"])
    return body
