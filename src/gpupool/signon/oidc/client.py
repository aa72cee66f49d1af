"""What the pool asks an OpenID provider: tokens of a login, and groups that the ID token lacks.

Tokens of the provider live as long as the call: none is stored, logged or handed out.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote_plus

from gpupool.base.errors import ProviderUnreachable, SignonFailed, SignonUnavailable
from gpupool.signon.oidc.http import ask_provider
from gpupool.signon.oidc.id_tokens import FindKeys, check_id_token, check_logout_token
from gpupool.signon.oidc.keys import KeyCache
from gpupool.signon.oidc.metadata import MetadataCache, ProviderMetadata
from gpupool.signon.oidc.persons import make_person, read_groups, refuse_distant_groups
from gpupool.signon.providers import ProviderRecord
from gpupool.signon.rules import ExternalPerson
from gpupool.wire.signon import OidcSettings

#: RFC 8628, 3.4.
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True)
class TokenAnswer:
    """The provider's answer to a request for tokens: an ID token, or the error's code."""

    id_token: str = ""
    access_token: str = ""
    error: str = ""


class OidcClient:
    """Talks to the pool's OpenID providers. Thread-safe; every method blocks on the provider."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._metadata = MetadataCache(clock)
        self._keys = KeyCache(clock)
        self._wall_clock = wall_clock

    def read_metadata(self, provider: ProviderRecord) -> ProviderMetadata:
        """Return the provider's addresses. Raises ProviderUnreachable."""
        settings = settings_of(provider)
        return self._metadata.read(settings.issuer, settings.ca_certificates)

    def list_keys(self, provider: ProviderRecord) -> list[dict[str, Any]]:
        """Return the provider's keys for signatures. Raises ProviderUnreachable."""
        return self._find_keys(provider)(None)

    def ask_device_code(self, provider: ProviderRecord) -> dict[str, Any]:
        """Begin the device flow (RFC 8628, 3.1) and return the provider's answer.

        Raises:
            SignonUnavailable: the provider has no device flow.
            ProviderUnreachable: it refuses or does not answer.
        """
        settings = settings_of(provider)
        address = self.read_metadata(provider).device
        if address is None:
            raise SignonUnavailable(
                f"the provider {provider.name} has no device flow",
                hint="log in with a browser, or with a token: gpupool login URL --token-file FILE",
            )
        form = {"scope": " ".join(settings.scopes)}
        status, body = self._post(provider, address, form)
        wanted = ("device_code", "user_code", "verification_uri")
        if status != 200 or not all(isinstance(body.get(name), str) for name in wanted):
            raise _describe_refusal(provider, status, body)
        return body

    def ask_tokens(self, provider: ProviderRecord, form: Mapping[str, str]) -> TokenAnswer:
        """Exchange a code for tokens; an error of the protocol is in the answer.

        Raises:
            ProviderUnreachable: no answer, or one without ID token and error.
        """
        address = self.read_metadata(provider).token
        status, body = self._post(provider, address, form)
        error = body.get("error")
        if isinstance(error, str):
            return TokenAnswer(error=error)
        id_token = body.get("id_token")
        if status != 200 or not isinstance(id_token, str):
            raise _describe_refusal(provider, status, body)
        access = body.get("access_token")
        return TokenAnswer(id_token, access if isinstance(access, str) else "")

    def identify_person(
        self, provider: ProviderRecord, answer: TokenAnswer, nonce: str | None
    ) -> ExternalPerson:
        """Check the ID token and return its person.

        Userinfo is asked only where the groups lack.

        Raises:
            SignonFailed: the token is not to be trusted.
            ProviderUnreachable: the keys or the groups cannot be had.
        """
        settings = settings_of(provider)
        find_keys = self._find_keys(provider)
        claims = check_id_token(answer.id_token, settings, find_keys, nonce, self._wall_clock())
        groups = read_groups(claims, settings.groups_claim)
        if groups is None:
            groups = self._ask_groups(provider, answer.access_token, claims)
        if groups is None:
            refuse_distant_groups(claims, settings.groups_claim)
        return make_person(provider.name, settings, claims, groups or ())

    def check_logout(self, provider: ProviderRecord, text: str) -> dict[str, Any]:
        """Check a logout token and return its claims. Raises SignonFailed."""
        settings = settings_of(provider)
        return check_logout_token(text, settings, self._find_keys(provider), self._wall_clock())

    def _find_keys(self, provider: ProviderRecord) -> FindKeys:
        address = self.read_metadata(provider).keys
        return partial(self._keys.read, address, settings_of(provider).ca_certificates)

    def _ask_groups(
        self, provider: ProviderRecord, access_token: str, claims: Mapping[str, Any]
    ) -> tuple[str, ...] | None:
        settings = settings_of(provider)
        address = self.read_metadata(provider).userinfo
        if address is None or not access_token:
            return None
        bearer = {"Authorization": f"Bearer {access_token}"}
        status, body = ask_provider(address, settings.ca_certificates, headers=bearer)
        if status != 200:
            raise _describe_refusal(provider, status, body)
        # Core 5.3.2: else another person's groups could be put in place of these.
        if body.get("sub") != claims["sub"]:
            raise SignonFailed(
                "the identity provider's userinfo is of another person",
                hint="begin the login again",
            )
        return read_groups(body, settings.groups_claim)

    def _post(
        self, provider: ProviderRecord, address: str, form: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]]:
        settings = settings_of(provider)
        headers = {}
        secret = provider.open_secret()
        if secret:
            # RFC 6749, 2.3.1: both halves are form-encoded first.
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        sent = {"client_id": settings.client_id, **form}
        return ask_provider(address, settings.ca_certificates, form=sent, headers=headers)


def settings_of(provider: ProviderRecord) -> OidcSettings:
    """Return the settings of an OIDC provider; another kind is a defect of the caller."""
    assert provider.oidc is not None
    return provider.oidc


def _describe_refusal(
    provider: ProviderRecord, status: int, body: Mapping[str, Any]
) -> ProviderUnreachable:
    said = str(body.get("error_description") or body.get("error") or "no reason")[:200]
    return ProviderUnreachable(
        f"the provider {provider.name} answers {status}: {said}",
        hint=f"an admin types: gpupool sso test {provider.name}",
    )
