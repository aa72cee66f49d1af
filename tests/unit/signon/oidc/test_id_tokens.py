"""Signed tokens of a real key: what is trusted, and each way in which one is not."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from joserfc import jwk, jwt

from gpupool.base.errors import SignonFailed
from gpupool.signon.oidc.id_tokens import check_id_token, check_logout_token
from gpupool.wire.signon import OidcSettings
from tests.support.identity_provider import new_key

KEY = new_key("one")
OTHER = new_key("one")
SETTINGS = OidcSettings(issuer="https://id.example.org", client_id="gpupool", algorithms=["ES256"])
NOW = time.time()
CLAIMS = {
    "iss": SETTINGS.issuer,
    "aud": "gpupool",
    "sub": "7",
    "iat": int(NOW),
    "exp": int(NOW) + 300,
    "nonce": "n",
}
LOGOUT = {"http://schemas.openid.net/event/backchannel-logout": {}}


def find_keys(key_id: str | None) -> list[dict[str, Any]]:
    return [KEY.as_dict(private=False)] if key_id in (None, "one") else []


def sign(changes: dict[str, Any], header: dict[str, Any] | None = None, key: Any = KEY) -> str:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    head = {"alg": "ES256", "kid": "one"} | (header or {})
    return jwt.encode(head, claims, key, algorithms=[head["alg"]])


def unsigned(header: dict[str, Any]) -> str:
    parts = [json.dumps(part).encode() for part in (header, CLAIMS)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def test_a_right_token_gives_its_claims() -> None:
    assert check_id_token(sign({}), SETTINGS, find_keys, "n", NOW)["sub"] == "7"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://evil.example.org"}, "issuer"),
        ({"aud": "another"}, "another client"),
        ({"aud": ["gpupool", "another"]}, "another client asked"),
        ({"aud": ["gpupool", "x"], "azp": "x"}, "another client asked"),
        ({"aud": None}, "another client"),
        ({"exp": int(NOW) - 61}, "expired"),
        ({"exp": None}, "no end"),
        ({"exp": "never"}, "no time"),
        ({"iat": int(NOW) + 120}, "future"),
        ({"nbf": int(NOW) + 120}, "not valid yet"),
        ({"nonce": "m"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"sub": None}, "no person"),
        ({"sub": "x" * 256}, "no person"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SignonFailed, match=reason):
        check_id_token(sign(changes), SETTINGS, find_keys, "n", NOW)


def test_a_token_for_several_clients_names_this_one() -> None:
    several = sign({"aud": ["gpupool", "another"], "azp": "gpupool"})
    assert check_id_token(several, SETTINGS, find_keys, "n", NOW)["azp"] == "gpupool"


def test_a_token_of_another_key_with_the_same_id_is_refused() -> None:
    with pytest.raises(SignonFailed, match="none of 1 keys"):
        check_id_token(sign({}, key=OTHER), SETTINGS, find_keys, "n", NOW)


def test_a_token_of_an_unknown_key_id_is_refused() -> None:
    with pytest.raises(SignonFailed, match="none of 0 keys"):
        check_id_token(sign({}, {"kid": "two"}), SETTINGS, find_keys, "n", NOW)


def test_a_changed_token_is_refused() -> None:
    head, body, signature = sign({}).split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) | {"sub": "8"}
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(SignonFailed, match="none of 1 keys"):
        check_id_token(f"{head}.{changed}.{signature}", SETTINGS, find_keys, "n", NOW)


def test_a_token_without_signature_is_refused() -> None:
    for algorithm in ("none", "None", "NONE"):
        with pytest.raises(SignonFailed, match="its algorithm"):
            check_id_token(unsigned({"alg": algorithm}), SETTINGS, find_keys, "n", NOW)


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    public = json.dumps(KEY.as_dict(private=False))
    secret = jwk.OctKey.import_key(public.encode())
    forged = sign({}, {"alg": "HS256"}, secret)
    with pytest.raises(SignonFailed, match="its algorithm"):
        check_id_token(forged, SETTINGS, find_keys, "n", NOW)


DEEP = base64.urlsafe_b64encode(b"[" * 40_000).decode()


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "..", "x" * 70_000, "é.b.c", f"{DEEP}.b.c"])
def test_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(SignonFailed):
        check_id_token(text, SETTINGS, find_keys, "n", NOW)
    with pytest.raises(SignonFailed):
        check_logout_token(text, SETTINGS, find_keys, NOW)


def test_a_logout_token_is_one_of_the_last_minutes_and_no_id_token() -> None:
    right = {"events": LOGOUT, "nonce": None, "jti": "1"}
    assert check_logout_token(sign(right), SETTINGS, find_keys, NOW)["sub"] == "7"
    for wrong in (
        {"nonce": "n"},
        {"events": {}},
        {"iat": int(NOW) - 600},
        {"sub": None},
        {"aud": "another"},
    ):
        with pytest.raises(SignonFailed):
            check_logout_token(sign(right | wrong), SETTINGS, find_keys, NOW)
