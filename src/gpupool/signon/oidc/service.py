"""Logins by OpenID Connect: the code flow of browsers, the device flow of terminals, logout."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from gpupool.base.errors import SignonFailed, SignonUnavailable, UnknownProvider
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.signon.oidc import attempts
from gpupool.signon.oidc.attempts import LoginAttempt
from gpupool.signon.oidc.client import DEVICE_GRANT, OidcClient, settings_of
from gpupool.signon.providers import ProviderRecord, ProviderService
from gpupool.signon.rules import ExternalPerson
from gpupool.signon.sessions import PersonSessions
from gpupool.store.database import Store
from gpupool.wire.signon import DeviceLoginOut, DevicePollOut, SignonLoginOut


@dataclass(frozen=True)
class BrowserLogin:
    """The first step of a login in a browser: where it goes, and the cookie that binds it."""

    address: str
    cookie: str
    is_secure: bool


@dataclass(frozen=True)
class AuthenticatedPerson:
    """The last step: the person, the page that the browser wanted, and the pool's own address."""

    person: ExternalPerson
    return_path: str
    pool_url: str


class OidcLogins:
    """Logins by the pool's OpenID providers. Thread-safe; blocks on provider and store."""

    def __init__(
        self,
        store: Store,
        providers: ProviderService,
        sessions: PersonSessions,
        client: OidcClient,
    ) -> None:
        self._store = store
        self._providers = providers
        self._sessions = sessions
        self._client = client

    def begin_code(self, name: str | None, return_path: str) -> BrowserLogin:
        """Begin the authorization code flow with PKCE, state and nonce.

        Args:
            name: of the provider; None: the only one.
            return_path: a path of this pool's console to come back to.

        Raises:
            UnknownProvider: there is no such provider.
            SignonUnavailable: its `pool_url` is not set.
            ProviderUnreachable: it does not answer.
        """
        provider = self._providers.choose_oidc(name)
        settings = settings_of(provider)
        authorization = self._client.read_metadata(provider).authorization
        state = secrets.token_urlsafe(32)
        cookie = secrets.token_urlsafe(32)
        nonce = secrets.token_urlsafe(32)
        verifier = secrets.token_urlsafe(48)
        attempt = LoginAttempt(
            provider.id,
            "code",
            nonce=nonce,
            verifier=verifier,
            browser_sha256=attempts.hash_secret(cookie),
            return_path=check_return_path(return_path),
        )
        fields = {
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": _redirect_uri(provider),
            "scope": " ".join(settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": make_challenge(verifier),
            "code_challenge_method": "S256",
        }
        attempts.save_attempt(self._store, state, attempt)
        joint = "&" if "?" in authorization else "?"
        address = f"{authorization}{joint}{urlencode(fields)}"
        return BrowserLogin(address, cookie, fields["redirect_uri"].startswith("https:"))

    def finish_code(self, state: str, code: str, cookie: str) -> AuthenticatedPerson:
        """End the code flow: the provider's code for the person, whose rights are not looked at.

        Args:
            state: as the provider sent it back.
            code: of the provider.
            cookie: of the browser that began the login.

        Raises:
            SignonFailed: another browser began it, it is over, or the token cannot be trusted.
            ProviderUnreachable: the provider does not answer.
        """
        attempt = attempts.take_attempt(self._store, state, "code")
        if attempt is None:
            raise SignonFailed("this login is over or was used already", hint="begin it again")
        # Else a stranger's link would log a person in as the stranger (login CSRF).
        if not hmac.compare_digest(attempts.hash_secret(cookie), attempt.browser_sha256):
            raise SignonFailed("this login was begun in another browser", hint="begin it again")
        provider = self._find_provider(attempt)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": _redirect_uri(provider),
            "code_verifier": attempt.verifier,
        }
        answer = self._client.ask_tokens(provider, form)
        if answer.error:
            raise _refuse_code(answer.error)
        person = self._client.identify_person(provider, answer, attempt.nonce)
        pool_url = settings_of(provider).pool_url or ""
        return AuthenticatedPerson(person, attempt.return_path, pool_url)

    def begin_device(self, name: str | None) -> DeviceLoginOut:
        """Begin the device flow; the person agrees in a browser elsewhere.

        Raises:
            UnknownProvider: there is no such provider.
            SignonUnavailable: it has no device flow.
            ProviderUnreachable: it does not answer.
        """
        provider = self._providers.choose_oidc(name)
        answer = self._client.ask_device_code(provider)
        handle = secrets.token_urlsafe(32)
        interval = _read_seconds(answer, "interval", 5, 60)
        expires = _read_seconds(answer, "expires_in", 600, attempts.LONGEST_DEVICE_SECONDS)
        attempt = LoginAttempt(
            provider.id,
            "device",
            device_code=answer["device_code"],
            interval_seconds=interval,
            seconds=expires,
        )
        attempts.save_attempt(self._store, handle, attempt)
        complete = answer.get("verification_uri_complete")
        return DeviceLoginOut(
            handle=handle,
            user_code=answer["user_code"],
            verification_uri=answer["verification_uri"],
            verification_uri_complete=complete if isinstance(complete, str) else None,
            interval_seconds=interval,
            expires_seconds=expires,
        )

    def poll_device(self, handle: str) -> DevicePollOut:
        """Return the session once the person has agreed.

        Raises:
            SignonFailed: the person refused, or the time is over.
            SignonRefused: the person has no rights here.
            ProviderUnreachable: the provider does not answer.
        """
        found = attempts.begin_poll(self._store, handle, "device")
        if found is None:
            raise SignonFailed("this login is over or was used already", hint="begin it again")
        attempt, is_due = found
        interval = attempt.interval_ns // NANOS_PER_SECOND
        if not is_due:
            return DevicePollOut(state="pending", interval_seconds=interval)
        provider = self._find_provider(attempt)
        form = {"grant_type": DEVICE_GRANT, "device_code": attempt.device_code}
        answer = self._client.ask_tokens(provider, form)
        if answer.error == "slow_down":
            attempts.slow_down(self._store, handle)
            return DevicePollOut(state="pending", interval_seconds=interval + 5)
        if answer.error == "authorization_pending":
            return DevicePollOut(state="pending", interval_seconds=interval)
        # Of two polls that see the agreement at once one gets the session.
        if attempts.take_attempt(self._store, handle, "device") is None:
            raise SignonFailed("this login is over or was used already", hint="begin it again")
        if answer.error:
            raise _refuse_code(answer.error)
        person = self._client.identify_person(provider, answer, None)
        login = SignonLoginOut(**self._sessions.open_token(person).model_dump())
        return DevicePollOut(state="done", interval_seconds=interval, login=login)

    def end_sessions(self, name: str, logout_token: str) -> int:
        """End the sessions that a provider's back-channel logout names; return how many.

        Raises:
            SignonFailed: the token cannot be trusted.
            UnknownProvider: there is no such provider.
        """
        provider = self._providers.read_one(name)
        if provider.oidc is None:
            raise UnknownProvider(f"{name} is an LDAP directory", hint="gpupool sso list")
        claims = self._client.check_logout(provider, logout_token)
        return self._sessions.end_sessions(
            provider.oidc.issuer, claims.get("sub"), claims.get("sid")
        )

    def _find_provider(self, attempt: Any) -> ProviderRecord:
        for provider in self._providers.read_all():
            if provider.id == attempt.provider_id and provider.oidc is not None:
                return provider
        raise SignonFailed("the provider of this login was removed", hint="begin the login again")


def make_challenge(verifier: str) -> str:
    """Return the S256 challenge of a PKCE verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def check_return_path(path: str) -> str:
    """Return the path if it is one of this pool's console, else `/`: never another site."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\", "/api/", "/sso"))
    clean = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and clean and len(path) <= 400 else "/"


def _redirect_uri(provider: ProviderRecord) -> str:
    address = settings_of(provider).pool_url
    if address is None:
        raise SignonUnavailable(
            f"logins in a browser by {provider.name} need this pool's address",
            hint=f"an admin types: gpupool sso set {provider.name} --pool-url https://HOST:PORT",
        )
    return f"{address.rstrip('/')}/sso/callback"


def _read_seconds(answer: dict[str, Any], name: str, usual: int, most: int) -> int:
    value = answer.get(name, usual)
    return min(most, max(1, int(value))) if isinstance(value, int | float) else usual


def _refuse_code(error: str) -> SignonFailed:
    texts = {
        "access_denied": "the login was refused at the identity provider",
        "expired_token": "the login was not agreed to in time",
    }
    text = texts.get(error, f"the identity provider refuses the login: {error[:80]}")
    return SignonFailed(text, hint="begin the login again")
