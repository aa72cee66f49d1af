"""How simulated cards can be cut: the MIG shapes of known boards, as data.

Real cards are asked (`probes.nvml`), because names and ids differ between drivers and boards. Starts and
ids were recorded on A30, A100, H100, H200, B200 and RTX PRO 6000; a board whose memory figures nobody
recorded is left out rather than guessed. Memory is what the driver
reports as usable for the shape, rounded by its tools to hundredths of a GiB and here back to whole 64 MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpupool.model.partition import PartitionProfile


@dataclass(frozen=True)
class _Shape:
    slices: int
    suffix: str
    profile_id: int
    size: int
    starts: tuple[int, ...]
    max_count: int


_L7 = (
    _Shape(1, "", 19, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    _Shape(1, "+me", 20, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    _Shape(1, "", 15, 2, (0, 2, 4, 6), 4),
    _Shape(2, "", 14, 2, (0, 2, 4), 3),
    _Shape(3, "", 9, 4, (0, 4), 2),
    _Shape(4, "", 5, 4, (0,), 1),
    _Shape(7, "", 0, 8, (0,), 1),
)
_L4 = (
    _Shape(1, "", 14, 1, (0, 1, 2, 3), 4),
    _Shape(1, "+me", 21, 1, (0, 1, 2, 3), 1),
    _Shape(2, "", 5, 2, (0, 2), 2),
    _Shape(2, "+me", 6, 2, (0,), 1),
    _Shape(4, "", 0, 4, (0,), 1),
)

# model: (shapes, GB in the names, usable hundredths of GiB), both in the order of the shapes
_BOARDS: dict[str, tuple[tuple[_Shape, ...], tuple[int, ...], tuple[int, ...]]] = {
    "A30": (_L4, (6, 6, 12, 12, 24), (581, 581, 1169, 1169, 2344)),
    "A100-40G": (_L7, (5, 5, 10, 10, 20, 20, 40), (475, 475, 962, 962, 1950, 1950, 3925)),
    "A100-80G": (_L7, (10, 10, 20, 20, 40, 40, 80), (962, 962, 1950, 1950, 3925, 3925, 7850)),
    "A800-80G": (_L7, (10, 10, 20, 20, 40, 40, 80), (962, 962, 1950, 1950, 3925, 3925, 7850)),
    "H100": (_L7, (10, 10, 20, 20, 40, 40, 80), (975, 975, 1962, 1962, 3950, 3950, 7925)),
    "H100-NVL": (_L7, (12, 12, 24, 24, 47, 47, 94), (1075, 1075, 2162, 2162, 4638, 4638, 9312)),
    "H200": (_L7, (18, 18, 35, 35, 71, 71, 141), (1600, 1600, 3225, 3225, 6950, 6950, 14000)),
    "H200-NVL": (_L7, (18, 18, 35, 35, 71, 71, 141), (1600, 1600, 3225, 3225, 6950, 6950, 14000)),
}


@cache
def mig_profiles(model: str) -> tuple[PartitionProfile, ...]:
    """The shapes a simulated card of this model can be cut into; none where MIG or its figures are unknown.

    >>> [p.name for p in mig_profiles("H200")][:3]
    ['1g.18gb', '1g.18gb+me', '1g.35gb']
    """
    shapes, gigabytes, usable = _BOARDS.get(model, ((), (), ()))
    whole = max((shape.slices for shape in shapes), default=1)
    return tuple(
        PartitionProfile(
            name=f"{shape.slices}g.{gb}gb{shape.suffix}",
            size=shape.size,
            memory_bytes=_mib_64(gib_hundredths) << 26,
            starts=shape.starts,
            max_count=shape.max_count,
            gpu_milli=shape.slices * 1000 // whole,
            profile_id=shape.profile_id,
            media=bool(shape.suffix),
        )
        for shape, gb, gib_hundredths in zip(shapes, gigabytes, usable, strict=True)
    )


def boards_text() -> str:
    """The models whose shapes are known, for refusals."""
    return ", ".join(sorted(_BOARDS))


def _mib_64(gib_hundredths: int) -> int:
    return (gib_hundredths * 16 + 50) // 100
