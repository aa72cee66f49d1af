"""What an OpenID provider says about itself (OpenID Connect Discovery 1.0), kept for an hour."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import ProviderUnreachable
from gpupool.signon.oidc.http import ask_provider, check_provider_address

#: Providers move an endpoint rarely, and announce it.
FRESH_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class ProviderMetadata:
    """Addresses of one provider."""

    issuer: str
    authorization: str
    token: str
    keys: str
    userinfo: str | None
    device: str | None


class MetadataCache:
    """Metadata by issuer. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, ProviderMetadata]] = {}

    def read(self, issuer: str, certificates: str) -> ProviderMetadata:
        """Return the metadata of an issuer, asked for at most once an hour.

        Raises:
            ProviderUnreachable: no answer, or one that is not of this issuer.
        """
        key = (issuer, certificates)
        with self._lock:
            known = self._known.get(key)
        if known is not None and self._clock() - known[0] < FRESH_SECONDS:
            return known[1]
        found = ask_metadata(issuer, certificates)
        with self._lock:
            self._known[key] = (self._clock(), found)
        return found


def ask_metadata(issuer: str, certificates: str) -> ProviderMetadata:
    """Ask an issuer for its metadata. Raises ProviderUnreachable."""
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    status, body = ask_provider(address, certificates)
    if status != 200:
        raise ProviderUnreachable(
            f"{address} answers {status}", hint="is the issuer right?  gpupool sso show NAME"
        )
    # OpenID Connect Discovery 4.3: another issuer could answer with its own keys.
    if body.get("issuer") != issuer:
        raise ProviderUnreachable(
            f"{address} is of the issuer {body.get('issuer')!r}, not {issuer!r}",
            hint="give the issuer letter by letter as the provider writes it",
        )
    return ProviderMetadata(
        issuer,
        _read_address(body, "authorization_endpoint"),
        _read_address(body, "token_endpoint"),
        _read_address(body, "jwks_uri"),
        _read_optional(body, "userinfo_endpoint"),
        _read_optional(body, "device_authorization_endpoint"),
    )


def _read_address(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ProviderUnreachable(
            f"the provider's metadata has no {name}", hint="gpupool sso test NAME"
        )
    check_provider_address(value)
    return value


def _read_optional(body: dict[str, Any], name: str) -> str | None:
    return _read_address(body, name) if body.get(name) is not None else None
