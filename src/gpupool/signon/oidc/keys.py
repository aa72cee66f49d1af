"""The signing keys of providers: kept, and asked for again where a token names an unknown one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import ProviderUnreachable
from gpupool.signon.oidc.http import ask_provider

#: Tokens with invented key ids must not make us ask without end.
ASK_EVERY_SECONDS: Final = 60.0
#: A key that the provider took back is trusted at most so long.
FRESH_SECONDS: Final = 3600.0


@dataclass
class _KnownKeys:
    asked: float
    keys: list[dict[str, Any]]


class KeyCache:
    """Key sets by address. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _KnownKeys] = {}

    def read(self, address: str, certificates: str, key_id: str | None) -> list[dict[str, Any]]:
        """Return the public keys of that id; all of them where a token names none.

        An unknown id asks the provider, at most once a minute. Raises ProviderUnreachable.
        """
        place = (address, certificates)
        with self._lock:
            known = self._known.get(place)
        age = None if known is None else self._clock() - known.asked
        if known is not None and age is not None and age < FRESH_SECONDS:
            found = _choose_keys(known.keys, key_id)
            if found or age < ASK_EVERY_SECONDS:
                return found
        keys = _ask_keys(address, certificates)
        with self._lock:
            self._known[place] = _KnownKeys(self._clock(), keys)
        return _choose_keys(keys, key_id)


def _ask_keys(address: str, certificates: str) -> list[dict[str, Any]]:
    status, body = ask_provider(address, certificates)
    keys = body.get("keys")
    if status != 200 or not isinstance(keys, list):
        raise ProviderUnreachable(
            f"the provider's key set answers {status} without keys", hint="gpupool sso test NAME"
        )
    # A symmetric key in a public set would let everyone sign.
    return [key for key in keys if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]


def _choose_keys(keys: list[dict[str, Any]], key_id: str | None) -> list[dict[str, Any]]:
    for_signing = [key for key in keys if key.get("use", "sig") == "sig"]
    if key_id is None:
        return for_signing
    return [key for key in for_signing if key.get("kid") == key_id]
