"""Slurm's way to write times, sizes and indices."""

from __future__ import annotations

import re

from gpupool.base.errors import ForeignValue, NotExpressible
from gpupool.base.units import MIB
from gpupool.dialects import amounts
from gpupool.dialects.pod import PlacedWord

_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)", re.IGNORECASE)
#: Slurm's sizes are powers of 1024; a bare number is MiB.
_UNITS = {"K": 1 << 10, "": MIB, "M": MIB, "G": 1 << 30, "T": 1 << 40}


def parse_size(word: PlacedWord) -> int:
    """Bytes of `64G`, or of so many MiB."""
    found = _SIZE.fullmatch(str(word.value).strip().upper().removesuffix("B"))
    if found is None:
        raise ForeignValue(
            f"{word}: this is no amount of memory", hint="write it like 64G", path=word.path
        )
    return int(found.group(1)) * _UNITS[found.group(2)]


#: Types of --dependency that have a meaning here, as `--after` has it.
_ENDS = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}


def parse_dependencies(word: PlacedWord) -> tuple[str, ...]:
    """Parse `afterok:12:13,afterany:14` into the values of `--after`.

    Raises:
        NotExpressible: It is a type that has no meaning here, or one of several is enough (`?`).
    """
    text = str(word.value).strip()
    if "?" in text:
        raise NotExpressible(
            f"{word}: one of several ends is enough (`?`), and --after waits for all",
            hint="submit a job for each, or join them with a comma",
            path=word.path,
        )
    found = list[str]()
    for part in text.split(","):
        kind, *jobs = part.strip().split(":")
        if kind not in _ENDS:
            raise NotExpressible(
                f"{word}: {kind!r} has no meaning here",
                hint="use afterok, afterany or afternotok",
                path=word.path,
            )
        if not jobs or not all(jobs):
            raise ForeignValue(f"{word}: names no job", hint="write afterok:JOB", path=word.path)
        found += [f"{job}:{_ENDS[kind]}" for job in jobs]
    return tuple(found)


def parse_seconds(word: PlacedWord) -> int | None:
    """`90` minutes, `30:00`, `2:00:00`, `1-12`, `1-12:30:00`; None is without end."""
    text = str(word.value).strip()
    if text.lower() in ("unlimited", "infinite", "0"):
        return None
    found = re.fullmatch(
        r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?", text
    )
    if found is None:
        raise ForeignValue(
            f"{word}: this is no time", hint="write 30, 2:00:00 or 1-12:00:00", path=word.path
        )
    days, first, second, third = (int(part) if part else 0 for part in found.groups())
    if found.group(1) is not None:
        return ((days * 24 + first) * 60 + second) * 60 + third or None
    if found.group(4) is not None:
        return (first * 60 + second) * 60 + third or None
    return first * 60 + second or None  # minutes, or minutes and seconds


def count_indices(word: PlacedWord) -> int:
    """How many jobs an array is."""
    many = sum(len(part) for part in read_indices(word))
    return amounts.parse_integer(PlacedWord(word.key, many, word.path))


def read_indices(word: PlacedWord) -> list[range]:
    """The indices of an array, `0-15`, `1,3,5` or `0-9:2`, in their order."""
    found = []
    for part in str(word.value).partition("%")[0].split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([0-9]{1,6}))?)?", part.strip())
        if (
            match is None
            or (match.group(2) and int(match.group(2)) < int(match.group(1)))
            or match.group(3) == "0"
        ):
            raise ForeignValue(f"{word}: these are no indices", hint="write 0-15", path=word.path)
        first = int(match.group(1))
        last = int(match.group(2) or match.group(1))
        found.append(range(first, last + 1, int(match.group(3) or 1)))
    return found
