"""What a node's report says of how it prepared an allocation, as columns of `allocations`."""

from __future__ import annotations

from typing import Any

from gpupool.wire.fleet import ReportIn


def build_prepared_columns(report: ReportIn) -> dict[str, Any]:
    """Return the columns that a report about a prepared or running job sets.

    An agent that was restarted no longer knows what it refused: what is stored then stays.
    """
    columns: dict[str, Any] = {
        "fence": report.fence,
        "fence_why": report.fence_why,
        "attach_socket": report.attach_socket,
        "mechanism": report.mechanism or None,
        "holds": report.holds or None,
    }
    if report.layers is not None:
        columns["layers"] = report.layers
    if report.refused:
        columns["refused"] = report.refused
    return columns
