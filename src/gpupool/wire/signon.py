"""Bodies and answers about identity providers, their rules, and logins."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.leavers.policies import LeaverAct
from gpupool.wire.people import RoleName

#: Roles that a rule may give: those of people.
PersonRole = Literal["admin", "operator", "auditor", "tenant-admin", "user", "viewer"]
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
Address = Annotated[str, Field(min_length=8, max_length=400)]
#: A PEM bundle of authorities.
Certificates = Annotated[str, Field(max_length=64 << 10)]
Attribute = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9;-]{0,63}$")]


class OidcSettings(WireModel):
    """An OpenID Connect provider, as Keycloak, Entra ID or Okta."""

    issuer: Address
    client_id: str = Field(min_length=1, max_length=255)
    scopes: list[str] = Field(["openid", "profile", "email"], min_length=1, max_length=20)
    groups_claim: str = Field("groups", min_length=1, max_length=120)
    name_claim: str = Field("preferred_username", min_length=1, max_length=120)
    algorithms: list[Algorithm] = Field(
        ["RS256", "ES256"], min_length=1, max_length=10, description="of signatures"
    )
    pool_url: Address | None = Field(
        None,
        description="where browsers reach this pool; /sso/callback below it must be registered at "
        "the provider. Null: the device flow alone",
    )
    ca_certificates: Certificates = ""


class LdapSettings(WireModel):
    """An LDAP directory, as OpenLDAP or Active Directory."""

    url: Address = Field(description="ldaps://HOST[:PORT], or ldap://HOST[:PORT] with StartTLS")
    bind_dn: str = Field("", max_length=400, description="account that searches; empty: anonymous")
    base_dn: str = Field(min_length=1, max_length=400)
    user_filter: str = Field(
        "(uid={user})", max_length=400, description="{user} is replaced, escaped"
    )
    name_attribute: Attribute = "uid"
    subject_attribute: Attribute = Field(
        "entryUUID", description="never reassigned; objectGUID in Active Directory"
    )
    group_base_dn: str = Field("", max_length=400, description="empty: base_dn")
    group_filter: str = Field(
        "(member={dn})", max_length=400, description="{dn} and {user} are replaced, escaped"
    )
    group_attribute: Attribute = "cn"
    ca_certificates: Certificates = ""


class ProviderIn(WireModel):
    """Exactly one of `oidc` and `ldap`."""

    oidc: OidcSettings | None = None
    ldap: LdapSettings | None = None
    secret: str | None = Field(
        None,
        max_length=4096,
        description="of the client, or of bind_dn; null keeps the one there is",
    )


class ProviderOut(WireModel):
    """The secret is never shown."""

    name: str
    kind: Literal["oidc", "ldap"]
    oidc: OidcSettings | None = None
    ldap: LdapSettings | None = None
    has_secret: bool
    created_ns: int


class LoginWayOut(WireModel):
    """A way to log in, as the page for it shows them."""

    name: str
    kind: Literal["oidc", "ldap", "local"]
    browser: bool = Field(description="GET /sso?provider=NAME works")
    device: bool = Field(description="POST /api/v1/sso/device works")
    password: bool = Field(description="POST /login/local works")


class ProviderTestOut(WireModel):
    """What a test of a provider found, step by step."""

    ok: bool
    steps: list[str]


class RuleIn(WireModel):
    """Gives persons of a group their rights. The first rule that matches wins."""

    provider: Name | None = Field(None, description="null: of any provider")
    group: str | None = Field(
        None, min_length=1, max_length=255, description="null: every person of the provider"
    )
    role: PersonRole
    tenant: Name
    project: Name | None = Field(None, description="what jobs count for that name no project")
    run_as: str | None = Field(
        None,
        min_length=1,
        max_length=120,
        description="Unix account of jobs from the network; {preferred_username} is a claim",
    )


class RulesIn(WireModel):
    rules: list[RuleIn] = Field(max_length=500)


class RulesOut(WireModel):
    """In order."""

    rules: list[RuleIn]


class LoginExplainIn(WireModel):
    """A login that did not take place."""

    groups: list[Annotated[str, Field(max_length=255)]] = Field(max_length=1000)
    user: Name | None = None
    provider: Name | None = None


class LoginExplainOut(WireModel):
    """What that login would get."""

    rule: int | None = Field(description="from 1; null: none matches, the login is refused")
    role: RoleName | None
    tenant: str | None
    project: str | None
    run_as: str | None
    text: str


class DeviceLoginIn(WireModel):
    provider: Name | None = Field(None, description="null: the only OIDC provider")


class DeviceLoginOut(WireModel):
    """`handle` is for the polls, the rest for the person."""

    handle: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    interval_seconds: int
    expires_seconds: int


class DevicePollIn(WireModel):
    handle: str = Field(min_length=1, max_length=100)


class DevicePollOut(WireModel):
    """`login` is there once the person has agreed."""

    state: Literal["pending", "done"]
    interval_seconds: int
    login: SignonLoginOut | None = None


class SignonLoginOut(WireModel):
    """As the answer of POST /login."""

    token: str
    user: str
    tenant: str
    role: RoleName
    expires_ns: int


class ProviderLogoutOut(WireModel):
    ended: int = Field(description="sessions")


class PasswordLoginIn(WireModel):
    user: str = Field(min_length=1, max_length=255)
    password: str = Field(min_length=1, max_length=1024)
    totp: str | None = Field(None, pattern=r"^[0-9]{6}$", description="code of the authenticator")
    provider: Name | None = Field(None, description="an LDAP directory; null: a local account")


class PasswordIn(WireModel):
    password: str = Field(min_length=1, max_length=1024)
    current: str | None = Field(None, max_length=1024, description="for one's own, over TCP")


class TotpOut(WireModel):
    """Shown once. It counts from the first right code on."""

    secret: str
    uri: str = Field(description="for the QR code that authenticators read")


class TotpIn(WireModel):
    code: str = Field(pattern=r"^[0-9]{6}$")


class SyncIn(WireModel):
    """What to do with users that the directory has no more."""

    provider: Name
    jobs: LeaverAct | None = Field(
        None, description="null: by the policy of the tenant or provider, else kept"
    )
    to: Name | None = Field(None, description="with `hand-over`: the new owner")
    keep_seconds: int | None = Field(
        None, ge=60, le=10 * 366 * 86400, description="with `keep`: then they are stopped"
    )
    unseen_days: int | None = Field(
        None, ge=1, le=3650, description="OIDC has no directory: no login for so long"
    )
    dry_run: bool = False
    force: bool = Field(
        False, description="also where more than half of 10 or more persons are leavers"
    )


class LeaverOut(WireModel):
    user: str
    tenant: str
    reason: str
    jobs: int = Field(description="live ones")
    act: LeaverAct = Field(description="what becomes of them")
    until_ns: int | None = Field(None, description="kept until then; null: no end")
    heir: str | None = None


class SyncOut(WireModel):
    """`checked` identities; the leavers are disabled unless it was a dry run."""

    checked: int
    leavers: list[LeaverOut]
    stopped: int = Field(description="jobs whose end was requested")
    handed: int = Field(0, description="jobs, arrays, schedules that went to the new owner")


DevicePollOut.model_rebuild()
