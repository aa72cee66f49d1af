"""Checks of signed tokens of a provider: the only place that decides whether one is trusted.

Algorithms are those that an admin allowed, never what the token says; `none` and shared secrets are
none of them. Clocks may differ by a minute.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from gpupool.base.errors import SignonFailed
from gpupool.signon.libraries import import_library
from gpupool.wire.signon import OidcSettings

#: Clocks of two machines may differ by so much.
LEEWAY_SECONDS: Final = 60
#: A token of more is none: signatures are checked only of what could be one.
LONGEST_TOKEN: Final = 64 << 10
#: OpenID Connect Back-Channel Logout 1.0, 2.4.
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"

#: From the id of a key to the public keys with it.
FindKeys = Callable[[str | None], list[dict[str, Any]]]


def check_id_token(
    text: str, settings: OidcSettings, find_keys: FindKeys, nonce: str | None, now: float
) -> dict[str, Any]:
    """Check an ID token of a login (OpenID Connect Core 3.1.3.7) and return its claims.

    Args:
        text: the token.
        settings: of the provider.
        find_keys: finds the provider's keys.
        nonce: of the login; None for the device flow, which has none.
        now: seconds since 1970.

    Raises:
        SignonFailed: it is not of this provider, not for this pool or login, or too old.
        SignonUnavailable: the library lacks.
    """
    claims = _read_signed(text, settings, find_keys)
    _check_addressee(claims, settings)
    expires = _read_time(claims, "exp")
    if expires is None or expires + LEEWAY_SECONDS <= now:
        raise _refuse("it expired, or has no end")
    issued = _read_time(claims, "iat")
    if issued is None or issued - LEEWAY_SECONDS > now:
        raise _refuse("it was issued in the future, or does not say when")
    not_before = _read_time(claims, "nbf")
    if not_before is not None and not_before - LEEWAY_SECONDS > now:
        raise _refuse("it is not valid yet")
    if nonce is not None and claims.get("nonce") != nonce:
        raise _refuse("it is of another login")
    _check_subject(claims)
    return claims


def check_logout_token(
    text: str, settings: OidcSettings, find_keys: FindKeys, now: float
) -> dict[str, Any]:
    """Check a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6) and return its claims.

    Raises:
        SignonFailed: it is not one of this provider for this pool.
    """
    claims = _read_signed(text, settings, find_keys)
    _check_addressee(claims, settings)
    issued = _read_time(claims, "iat")
    # Two minutes as the specification advises for `exp`; older ones may be replays.
    if issued is None or abs(now - issued) > 120 + LEEWAY_SECONDS:
        raise _refuse("it is not of the last two minutes")
    events = claims.get("events")
    if not isinstance(events, dict) or LOGOUT_EVENT not in events or "nonce" in claims:
        raise _refuse("it is no logout token")
    if not isinstance(claims.get("sub", claims.get("sid")), str):
        raise _refuse("it names no session")
    return claims


def _read_signed(text: str, settings: OidcSettings, find_keys: FindKeys) -> dict[str, Any]:
    header = _read_header(text)
    if header.get("alg") not in settings.algorithms:
        raise _refuse(
            f"its algorithm is {str(header.get('alg'))[:20]!r}; allowed are "
            f"{', '.join(settings.algorithms)}"
        )
    # RFC 7515, 4.1.11: extensions that a reader must understand, and we know none.
    if "crit" in header:
        raise _refuse("it has extensions that gpupool does not know")
    key_id = header.get("kid")
    keys = find_keys(key_id if isinstance(key_id, str) else None)
    jwt = import_library("joserfc.jwt", "a login by OIDC")
    jwk = import_library("joserfc.jwk", "a login by OIDC")
    errors = import_library("joserfc.errors", "a login by OIDC")
    for key in keys:
        try:
            read = jwt.decode(text, jwk.import_key(key), algorithms=list(settings.algorithms))
        except (errors.JoseError, ValueError):
            # The next key of the same id may fit: providers list old and new ones together.
            continue
        if isinstance(read.claims, dict):
            return dict(read.claims)
    raise _refuse(f"none of {len(keys)} keys of the provider with its id signed it")


def _read_header(text: str) -> Mapping[str, Any]:
    if len(text) > LONGEST_TOKEN or text.count(".") != 2:
        raise _refuse("it is no signed token")
    first = text.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    # RecursionError: thousands of brackets, which a stranger may send as a logout token.
    except (binascii.Error, ValueError, RecursionError):
        raise _refuse("its header cannot be read") from None
    if not isinstance(header, dict):
        raise _refuse("its header is no object")
    return header


def _check_addressee(claims: Mapping[str, Any], settings: OidcSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise _refuse(f"it is of the issuer {str(claims.get('iss'))[:200]!r}")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or settings.client_id not in audiences:
        raise _refuse("it is for another client")
    # Core 3.1.3.7: a token for several must say which of them asked for it.
    party = claims.get("azp", None if len(audiences) > 1 else settings.client_id)
    if party != settings.client_id:
        raise _refuse("another client asked for it")


def _check_subject(claims: Mapping[str, Any]) -> None:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255:
        raise _refuse("it names no person")


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(f"its {name} is no time")
    return float(value)


def _refuse(reason: str) -> SignonFailed:
    return SignonFailed(
        f"the identity provider's token is refused: {reason}",
        hint="begin the login again; if it persists, an admin types: gpupool sso test NAME",
    )
