"""References to members of arrays without a row: `y-4k9x2m7q8w.17`, array and index. Pure.

Scheduler, routes and queue carry a reference as they carry a job's id.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.ids import is_id

#: First letter of an array's id.
KIND = "y"
#: Members of one array at most.
MAX_ARRAY_SIZE = 1_000_000


@dataclass(frozen=True)
class MemberReference:
    """A member by its array's public id and its index."""

    array: str
    index: int

    def __str__(self) -> str:
        return f"{self.array}.{self.index}"


def is_array_id(text: str) -> bool:
    """Return whether the text is the public id of an array."""
    return text.startswith(f"{KIND}-") and is_id(text)


def parse_reference(text: str) -> MemberReference | None:
    """Return the reference in the text; None if it is a job's id or a name."""
    array, _, index = text.partition(".")
    number = parse_index(index)
    return None if number is None or not is_array_id(array) else MemberReference(array, number)


def parse_index(digits: str) -> int | None:
    """Return a member's index in the text; None if it is anything else."""
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MAX_ARRAY_SIZE)):
        return None
    # `07` is no index: a member has one name.
    return int(digits) if digits == str(int(digits)) else None


def split_name(name: str) -> tuple[str, int] | None:
    """Split `sweep.17` into array name and index; None if the name is no member's."""
    array, dot, digits = name.rpartition(".")
    number = parse_index(digits)
    return (array, number) if dot and array and number is not None else None


def build_topic(job: str) -> tuple[str, str]:
    """Return the topic that announces changes of a job; a member without row uses its array's."""
    reference = parse_reference(job)
    return ("job", job if reference is None else reference.array)
