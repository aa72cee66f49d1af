"""What a submission says of the times when the job's cards have no work."""

from __future__ import annotations

from gpupool.base.errors import BadOption
from gpupool.base.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Seconds, as in `model.suspension`, without its import.
USUAL_SECONDS = 60


def idle_body(when_idle: str | None, idle_after: str | None) -> dict[str, Any]:
    """The part of POST /jobs for `--when-idle` and `--idle-after`. Raises BadOption, BadDuration."""
    if when_idle is None:
        raise BadOption(
            f"--idle-after {idle_after} alone does nothing", hint="add --when-idle suspend"
        )
    if when_idle != "suspend":
        raise BadOption(
            f"--when-idle {when_idle}: this action is unknown", hint="write --when-idle suspend"
        )
    seconds = USUAL_SECONDS if idle_after is None else parse_duration(idle_after)
    return {"idle_seconds": seconds}
