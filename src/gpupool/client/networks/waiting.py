"""Waits for what the pool does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.client.networks.parts import Shape

#: Seconds between two looks, and in which it is done: `gpupool network verify` waits as long.
_LOOK_SECONDS: Final = 0.2
_WAIT_SECONDS: Final = 150.0


def wait_for(read: Callable[[], Shape], is_passing: Callable[[Shape], bool], what: str) -> Shape:
    """Read until the state is no passing one. Raises NetworkingUnavailable after the deadline."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while is_passing(found := read()):
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"{what} is not done after {_WAIT_SECONDS:g} s", hint="gpupool network status"
            )
        time.sleep(_LOOK_SECONDS)
    return found
