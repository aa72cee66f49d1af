"""Waiting for a condition, with an end."""

import time
from collections.abc import Callable

from tests.support.cluster.directory import ClusterError

POLL_SECONDS = 0.05


def wait_until(condition: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Return when the condition holds. Raises ClusterError with the words of `otherwise` when it
    never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(otherwise())
        time.sleep(POLL_SECONDS)
