"""The death of a server at a chosen step of its writes, and the server that comes after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.house import House


class Killed(BaseException):
    """The server's end."""


@contextmanager
def killed_at(house: House, number: int) -> Iterator[list[int]]:
    """The process dies at that step of its writes, and nothing is written any more; the steps it
    had."""
    seen = list[int]()

    def look(_step: str, _subjects: object) -> None:
        seen.append(number)
        if len(seen) >= number:
            raise Killed

    house.store._fault = look
    try:
        yield seen
    except Killed:
        house.store._fault = lambda _step, _subjects: None
        house.restart()
        house.allocations.unsettled.settle_all()
        house.allocations.placer.load()
    finally:
        house.store._fault = lambda _step, _subjects: None
