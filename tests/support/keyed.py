"""A request with an Idempotency-Key, for calls below the server's HTTP layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupool.store import idempotency
from tests.support.house import House


@contextmanager
def with_a_key(house: House) -> Iterator[None]:
    """What is written inside the block is one request's."""
    token = idempotency.current.set(
        idempotency.IdempotentRequest(house.admin.user_id, "key", "0" * 64)
    )
    try:
        yield
    finally:
        idempotency.current.reset(token)
