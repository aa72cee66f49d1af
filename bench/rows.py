"""What a bench returns: one row per figure, ours beside the peer's, measured in the same run.

A row carries what was measured and nothing that was wished for. `limit` is the ratio the issue
demands; a peer that could not be had is None and prints as `--`, never as 0.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

UNKNOWN = "--"


@dataclass(frozen=True)
class Row:
    """One figure. `ours` and `peer` are in `unit`; smaller is better when `limit_ratio` is an upper
    limit.

    `limit_ratio` bounds ours/peer from above and `least_ratio` from below, `limit` bounds ours
    itself from above, `limit_apart` how far ours may be from the peer's either way; each may be
    absent. `command` is what was typed for ours, `peer_command` for the peer; the samples are kept
    so that a median can be doubted.
    """

    figure: str
    unit: str
    ours: float
    command: str
    peer: float | None = None
    peer_command: str = ""
    limit_ratio: float | None = None
    least_ratio: float | None = None
    limit: float | None = None
    limit_apart: float | None = None
    samples: tuple[float, ...] = ()
    peer_samples: tuple[float, ...] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """ours / peer; None where there is no peer, or it measured nothing."""
        return self.ours / self.peer if self.peer else None

    @property
    def holds(self) -> bool | None:
        """Whether every limit is kept; None where no limit could be checked."""
        checks = []
        if self.limit is not None:
            checks.append(self.ours <= self.limit)
        if self.limit_ratio is not None and self.ratio is not None:
            checks.append(self.ratio <= self.limit_ratio)
        if self.least_ratio is not None and self.ratio is not None:
            checks.append(self.ratio >= self.least_ratio)
        if self.limit_apart is not None and self.peer is not None:
            checks.append(abs(self.ours - self.peer) <= self.limit_apart)
        return all(checks) if checks else None

    def as_json(self) -> dict[str, Any]:
        """Every field, with the derived ratio and verdict beside them; unknown is null."""
        return asdict(self) | {"ratio": self.ratio, "holds": self.holds}


def median_row(figure: str, command: str, samples: Sequence[float], **rest: Any) -> Row:
    """A row in seconds whose figure is the median of its samples; the peer's too when its samples
    are given."""
    peer_samples = tuple(rest.pop("peer_samples", ()))
    return Row(
        figure=figure,
        unit="s",
        ours=statistics.median(samples),
        command=command,
        peer=statistics.median(peer_samples) if peer_samples else None,
        samples=tuple(samples),
        peer_samples=peer_samples,
        **rest,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as text: figure, ours, peer, ratio, limit, verdict."""
    lines = [("figure", "ours", "peer", "ratio", "limit", "")]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(_aligned(line, widths)).rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, str, str, str, str, str]:
    verdict = {True: "holds", False: "MISSED", None: ""}[row.holds]
    return (
        row.figure,
        _quantity(row.ours, row.unit),
        UNKNOWN if row.peer is None else _quantity(row.peer, row.unit),
        UNKNOWN if row.ratio is None else f"{row.ratio:.2f}",
        _limit(row),
        verdict,
    )


def _limit(row: Row) -> str:
    parts = [] if row.limit_ratio is None else [f"{row.limit_ratio:g}x"]
    parts += [] if row.least_ratio is None else [f">={row.least_ratio:g}x"]
    parts += [] if row.limit is None else [_quantity(row.limit, row.unit)]
    parts += [] if row.limit_apart is None else [f"±{_quantity(row.limit_apart, row.unit)}"]
    return " and ".join(parts) or UNKNOWN


def _quantity(value: float, unit: str) -> str:
    number = f"{value:.0f}" if value == int(value) else f"{value:.4g}"
    return f"{number} {unit}".rstrip()


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if column in (0, 5) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
