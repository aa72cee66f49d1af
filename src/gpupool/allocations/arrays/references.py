"""What a member of an array is called before it is a job: `y-4k9x2m7q8w.17`, the array's id and its index.

The scheduler, the routes and the queue carry this name as they carry a job's id. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.ids import is_id

KIND = "y"
"""First letter of an array's id."""
LARGEST = 1_000_000
"""Members of one array at most."""


@dataclass(frozen=True)
class Reference:
    """A member by its array's public id."""

    array: str
    index: int

    def __str__(self) -> str:
        return f"{self.array}.{self.index}"


def is_array_id(text: str) -> bool:
    """Whether the text is the public id of an array."""
    return text.startswith(f"{KIND}-") and is_id(text)


def reference_of(text: str) -> Reference | None:
    """The member that is so called; None for the id of a job or a name."""
    array, _, index = text.partition(".")
    number = index_of(index)
    return None if number is None or not is_array_id(array) else Reference(array, number)


def index_of(digits: str) -> int | None:
    """A member's number as it is written in its name; None for anything else."""
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(LARGEST)):
        return None
    return int(digits) if digits == str(int(digits)) else None


def split_name(name: str) -> tuple[str, int] | None:
    """`sweep.17` as the array's name and the index; None where the name can be no member's."""
    array, dot, digits = name.rpartition(".")
    number = index_of(digits)
    return (array, number) if dot and array and number is not None else None


def topic_of(job: str) -> tuple[str, str]:
    """What to wait for to hear of a change of the job; a member that is no job yet changes with its array."""
    reference = reference_of(job)
    return ("job", job if reference is None else reference.array)
