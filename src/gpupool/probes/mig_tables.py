"""Holds the MIG profiles of known boards, for simulated cards.

`probes.nvml` reads them from real cards, because names and ids differ between drivers and boards.
Starts and ids were recorded on A30, A100, H100, H200, B200 and RTX PRO 6000; a board whose memory
figures were not recorded is left out rather than guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpupool.model.partition import PartitionProfile


@dataclass(frozen=True)
class _PartitionShape:
    """A profile without the board's memory figures."""

    slices: int
    suffix: str
    profile_id: int
    size: int
    starts: tuple[int, ...]
    max_count: int


_L7 = (
    _PartitionShape(1, "", 19, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    _PartitionShape(1, "+me", 20, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    _PartitionShape(1, "", 15, 2, (0, 2, 4, 6), 4),
    _PartitionShape(2, "", 14, 2, (0, 2, 4), 3),
    _PartitionShape(3, "", 9, 4, (0, 4), 2),
    _PartitionShape(4, "", 5, 4, (0,), 1),
    _PartitionShape(7, "", 0, 8, (0,), 1),
)
_L4 = (
    _PartitionShape(1, "", 14, 1, (0, 1, 2, 3), 4),
    _PartitionShape(1, "+me", 21, 1, (0, 1, 2, 3), 1),
    _PartitionShape(2, "", 5, 2, (0, 2), 2),
    _PartitionShape(2, "+me", 6, 2, (0,), 1),
    _PartitionShape(4, "", 0, 4, (0,), 1),
)
#: A unit is a third of a slice here (recorded on RTX PRO 6000). Of `+me` and `+me.all` shapes a card
#: holds one; `-me` shapes have no media engines, `+gfx` shapes can draw.
_L12 = (
    _PartitionShape(1, "", 14, 3, (0, 3, 6, 9), 4),
    _PartitionShape(1, "+me", 21, 3, (0, 3, 6, 9), 1),
    _PartitionShape(1, "+gfx", 47, 3, (0, 3, 6, 9), 4),
    _PartitionShape(1, "+me.all", 65, 3, (0, 3, 6, 9), 1),
    _PartitionShape(1, "-me", 67, 3, (0, 3, 6, 9), 4),
    _PartitionShape(2, "", 5, 6, (0, 6), 2),
    _PartitionShape(2, "+gfx", 35, 6, (0, 6), 2),
    _PartitionShape(2, "+me.all", 64, 6, (0, 6), 1),
    _PartitionShape(2, "-me", 66, 6, (0, 6), 2),
    _PartitionShape(4, "", 0, 12, (0,), 1),
    _PartitionShape(4, "+gfx", 32, 12, (0,), 1),
)

#: By model: shapes, GB in their names, and usable memory in hundredths of a GiB, as the driver's
#: tools print it; all in the order of the shapes.
_BOARDS: dict[str, tuple[tuple[_PartitionShape, ...], tuple[int, ...], tuple[int, ...]]] = {
    "A30": (_L4, (6, 6, 12, 12, 24), (581, 581, 1169, 1169, 2344)),
    "A100-40G": (_L7, (5, 5, 10, 10, 20, 20, 40), (475, 475, 962, 962, 1950, 1950, 3925)),
    "A100-80G": (_L7, (10, 10, 20, 20, 40, 40, 80), (962, 962, 1950, 1950, 3925, 3925, 7850)),
    "A800-80G": (_L7, (10, 10, 20, 20, 40, 40, 80), (962, 962, 1950, 1950, 3925, 3925, 7850)),
    "H100": (_L7, (10, 10, 20, 20, 40, 40, 80), (975, 975, 1962, 1962, 3950, 3950, 7925)),
    "H100-NVL": (_L7, (12, 12, 24, 24, 47, 47, 94), (1075, 1075, 2162, 2162, 4638, 4638, 9312)),
    "H200": (_L7, (18, 18, 35, 35, 71, 71, 141), (1600, 1600, 3225, 3225, 6950, 6950, 14000)),
    "RTX-PRO-6000": (
        _L12,
        (24, 24, 24, 24, 24, 48, 48, 48, 48, 96, 96),
        (2362, 2362, 2362, 2362, 2362, 4738, 4738, 4738, 4738, 9500, 9500),
    ),
    "H200-NVL": (_L7, (18, 18, 35, 35, 71, 71, 141), (1600, 1600, 3225, 3225, 6950, 6950, 14000)),
}


@cache
def list_mig_profiles(model: str) -> tuple[PartitionProfile, ...]:
    """Return the profiles of a simulated card of this model; none where its figures are unknown.

    >>> [p.name for p in mig_profiles("H200")][:3]
    ['1g.18gb', '1g.18gb+me', '1g.35gb']
    """
    shapes, gigabytes, usable = _BOARDS.get(model, ((), (), ()))
    whole = max((shape.slices for shape in shapes), default=1)
    profiles = []
    for shape, gb, gib_hundredths in zip(shapes, gigabytes, usable, strict=True):
        profile = PartitionProfile(
            name=f"{shape.slices}g.{gb}gb{shape.suffix}",
            size=shape.size,
            memory_bytes=_round_to_64_mib(gib_hundredths) << 26,
            starts=shape.starts,
            max_count=shape.max_count,
            gpu_milli=shape.slices * 1000 // whole,
            profile_id=shape.profile_id,
            media=shape.suffix.startswith("+me"),
        )
        profiles.append(profile)
    return tuple(profiles)


def format_boards() -> str:
    """Return the models whose profiles are known, for refusals."""
    return ", ".join(sorted(_BOARDS))


def _round_to_64_mib(gib_hundredths: int) -> int:
    # The driver reports whole 64 MiB, of which its tools print hundredths of a GiB.
    return (gib_hundredths * 16 + 50) // 100
