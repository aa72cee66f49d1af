"""A request with an Idempotency-Key, for calls below the server's HTTP layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupool.store import replay
from tests.support.house import House


@contextmanager
def with_a_key(house: House) -> Iterator[None]:
    """What is written inside the block is one request's."""
    token = replay.current.set(replay.Ask(house.admin.user_id, "key", "0" * 64))
    try:
        yield
    finally:
        replay.current.reset(token)
