"""A plan's rejections, for several threads.

The scheduler judges a class that a plan passed over when its rejection is read. API threads, the
placer and the metrics read the rejections of the same plan, so one of them judges at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from gpupool.model.claim import Rejection
from gpupool.scheduling import ClassKey


class SharedRejections(Mapping[ClassKey, Rejection]):
    """The rejections of a plan, read by one thread at a time."""

    def __init__(self, rejections: Mapping[ClassKey, Rejection]) -> None:
        self._rejections = rejections
        self._lock = threading.Lock()

    def __getitem__(self, key: ClassKey) -> Rejection:
        with self._lock:
            return self._rejections[key]

    def __iter__(self) -> Iterator[ClassKey]:
        with self._lock:
            return iter(tuple(self._rejections))

    def __len__(self) -> int:
        with self._lock:
            return len(self._rejections)

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._rejections
