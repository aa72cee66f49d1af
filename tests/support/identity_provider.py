"""A small OpenID provider over real HTTP: signed tokens, rotating keys, both flows, and its faults.

    with IdentityProvider() as provider:
        provider.person = {"sub": "7", "preferred_username": "alice", "groups": ["nlp"]}
        provider.issuer            # http://127.0.0.1:PORT
        provider.faults = {"aud": "another"}      # claims that the next ID token has instead

It answers on loopback alone, keeps what it was asked, and approves the device flow when a test says
so. It is written after the specifications and shares no code with the product.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

CLIENT_ID = "gpupool"
#: Also what client_secret_basic must carry form-encoded.
SECRET = "very secret:+%"


class IdentityProvider:
    """One issuer with one client."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "7", "preferred_username": "alice", "groups": []}
        self.faults: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.requests: list[tuple[str, str]] = []
        self.is_agreed = False
        self.is_down = False
        self.token_error: str | None = None
        self.keys = [new_key("first")]
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, Any]:
        """What `gpupool sso add oidc` would send."""
        return {
            "issuer": self.issuer,
            "client_id": CLIENT_ID,
            "pool_url": "http://127.0.0.1:8080",
            "algorithms": ["ES256", "RS256"],
        }

    def rotate(self, name: str) -> None:
        """Sign with a new key; the old one is published no more."""
        self.keys = [new_key(name)]

    def sign(self, claims: dict[str, Any]) -> str:
        """Sign claims with the newest key, with the header that a test set."""
        key = self.keys[-1]
        header = {"alg": "ES256", "kid": key.kid} | self.header
        return jwt.encode(header, claims, key, algorithms=["ES256"])

    def make_id_token(self, nonce: str | None) -> str:
        """Make the ID token of a login, with the faults that a test set."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}
        claims |= {"nonce": nonce} if nonce else {}
        claims |= self.person | self.faults
        return self.sign({name: value for name, value in claims.items() if value is not None})

    def make_logout_token(self, **changes: Any) -> str:
        """Make a back-channel logout token."""
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": int(time.time()),
            "jti": secrets.token_hex(8),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
            "sub": self.person["sub"],
        }
        claims |= changes
        return self.sign({name: value for name, value in claims.items() if value is not None})

    def authorize(self, address: str) -> dict[str, str]:
        """Do what a person does in a browser; returns the fields of the way back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT_ID
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def _answer(self, path: str, form: dict[str, str], headers: Any) -> tuple[int, Any]:
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": self.issuer,
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token",
                    "jwks_uri": f"{self.issuer}/keys",
                    "userinfo_endpoint": f"{self.issuer}/userinfo",
                    "device_authorization_endpoint": f"{self.issuer}/device",
                }
            case "/keys":
                return 200, {"keys": [key.as_dict(private=False) for key in self.keys]}
            case "/token":
                return self._exchange(form, headers)
            case "/device":
                return 200, {
                    "device_code": "device-1",
                    "user_code": "ABCD-EFGH",
                    "verification_uri": f"{self.issuer}/enter",
                    "interval": 1,
                    "expires_in": 600,
                }
            case "/userinfo":
                assert headers["Authorization"] == "Bearer access-1"
                return 200, self.userinfo
        return 404, {}

    def _exchange(self, form: dict[str, str], headers: Any) -> tuple[int, Any]:
        pair = urlencode({CLIENT_ID: SECRET}).replace("=", ":", 1)
        expected = base64.b64encode(pair.encode()).decode()
        if headers["Authorization"] != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        if self.token_error is not None:
            return 400, {"error": self.token_error}
        nonce = None
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge:
                return 400, {"error": "invalid_grant"}
            assert asked["redirect_uri"] == form["redirect_uri"]
            nonce = asked["nonce"]
        elif not self.is_agreed:
            return 400, {"error": "authorization_pending"}
        return 200, {"id_token": self.make_id_token(nonce), "access_token": "access-1"}

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                fields = parse_qs(self.rfile.read(size).decode())
                self._reply({name: values[0] for name, values in fields.items()})

            def _reply(self, form: dict[str, str]) -> None:
                path = urlsplit(self.path).path
                provider.requests.append((self.command, path))
                status, body = provider._answer(path, form, self.headers)
                if provider.is_down:
                    status, body = 503, {}
                sent = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                """Say nothing: the test prints what matters."""

        return Handler


def new_key(name: str) -> Any:
    """Make a signing key with that id."""
    return jwk.ECKey.generate_key("P-256", {"kid": name, "use": "sig"})
