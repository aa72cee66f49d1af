"""Both flows against a real provider over HTTP, its faults, and its logout."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadOption,
    NotLoggedIn,
    ProviderUnreachable,
    SignonFailed,
    SignonRefused,
    SignonUnavailable,
    UnknownProvider,
)
from gpupool.signon import tables
from gpupool.signon.oidc.service import check_return_path
from gpupool.wire.people import LoginOut
from gpupool.wire.signon import ProviderIn
from tests.support.identity_provider import IdentityProvider
from tests.unit.signon.conftest import Door


@pytest.fixture(autouse=True)
def known(door: Door, provider: IdentityProvider) -> None:
    """The pool knows the provider, and the group nlp has rights."""
    door.add_provider(provider)
    door.rule("nlp")
    provider.person = {"sub": "7", "preferred_username": "alice", "groups": ["nlp"]}


def log_in(door: Door, provider: IdentityProvider) -> LoginOut:
    begun = door.signon.oidc.begin_code("corp", "/jobs")
    back = provider.authorize(begun.address)
    done = door.signon.oidc.finish_code(back["state"], back["code"], begun.cookie)
    assert done.return_path == "/jobs"
    return door.signon.sessions.open_token(done.person)


def poll_device(door: Door, handle: str) -> str:
    door.sleep(1.1)
    return door.signon.oidc.poll_device(handle).state


def test_the_code_flow_ends_in_a_session(door: Door, provider: IdentityProvider) -> None:
    caller = door.bearer(log_in(door, provider).token)
    assert (caller.user, caller.tenant, caller.role) == ("alice", "nlp", "user")
    asked = [path for _, path in provider.requests]
    # The groups are in the ID token, so userinfo is not asked.
    assert sorted(asked) == ["/.well-known/openid-configuration", "/keys", "/token"]


def test_no_token_of_the_provider_is_stored(door: Door, provider: IdentityProvider) -> None:
    log_in(door, provider)
    with door.store.read() as connection:
        stored = [
            str(row)
            for table in tables.metadata.sorted_tables
            for row in connection.execute(sa.select(table))
        ]
    assert not [row for row in stored if "access-1" in row or "eyJ" in row]


def test_a_code_serves_once_and_in_the_browser_that_began(
    door: Door, provider: IdentityProvider
) -> None:
    begun = door.signon.oidc.begin_code(None, "/")
    back = provider.authorize(begun.address)
    with pytest.raises(SignonFailed, match="another browser"):
        door.signon.oidc.finish_code(back["state"], back["code"], "other")
    with pytest.raises(SignonFailed, match="used already"):
        door.signon.oidc.finish_code(back["state"], back["code"], begun.cookie)


def test_a_login_that_took_too_long_is_over(door: Door, provider: IdentityProvider) -> None:
    begun = door.signon.oidc.begin_code(None, "/")
    back = provider.authorize(begun.address)
    door.sleep(601)
    with pytest.raises(SignonFailed, match="is over"):
        door.signon.oidc.finish_code(back["state"], back["code"], begun.cookie)


@pytest.mark.parametrize(
    "faults", [{"nonce": "x"}, {"aud": "x"}, {"iss": "https://x"}, {"exp": 1}, {"sub": None}]
)
def test_a_provider_that_sends_a_wrong_token_logs_no_person_in(
    faults: dict[str, object], door: Door, provider: IdentityProvider
) -> None:
    provider.faults = faults
    with pytest.raises(SignonFailed):
        log_in(door, provider)


def test_keys_are_asked_for_again_after_a_rotation_at_most_once_a_minute(
    door: Door, provider: IdentityProvider
) -> None:
    log_in(door, provider)
    provider.rotate("second")
    door.sleep(61)
    assert log_in(door, provider).user == "alice"
    provider.rotate("third")
    with pytest.raises(SignonFailed):
        log_in(door, provider)
    asked = [path for _, path in provider.requests].count("/keys")
    assert asked == 2
    door.sleep(61)
    assert log_in(door, provider).user == "alice"


def test_groups_that_the_token_lacks_come_from_userinfo_of_the_same_person(
    door: Door, provider: IdentityProvider
) -> None:
    del provider.person["groups"]
    provider.userinfo = {"sub": "7", "groups": ["nlp"]}
    assert log_in(door, provider).tenant == "nlp"
    provider.userinfo = {"sub": "8", "groups": ["nlp"]}
    with pytest.raises(SignonFailed, match="another person"):
        log_in(door, provider)


def test_groups_that_the_provider_keeps_elsewhere_are_not_taken_for_none(
    door: Door, provider: IdentityProvider
) -> None:
    session = log_in(door, provider).token
    # What Entra ID sends of a person in more than 200 groups (OpenID Connect Core 5.6.2).
    provider.faults = {"groups": None, "_claim_names": {"groups": "src1"}}
    provider.userinfo = {"sub": "7"}
    with pytest.raises(SignonFailed, match="too many groups"):
        log_in(door, provider)
    assert door.bearer(session).user == "alice", "its rights stay"
    provider.faults = {"groups": None, "hasgroups": True}
    with pytest.raises(SignonFailed, match="too many groups"):
        log_in(door, provider)


def test_the_device_flow_waits_for_the_person_and_gives_one_session(
    door: Door, provider: IdentityProvider
) -> None:
    begun = door.signon.oidc.begin_device(None)
    assert (begun.user_code, begun.interval_seconds) == ("ABCD-EFGH", 1)
    assert poll_device(door, begun.handle) == "pending"
    asked = len(provider.requests)
    assert door.signon.oidc.poll_device(begun.handle).state == "pending"
    assert len(provider.requests) == asked, "the provider is not asked more often than it allows"
    provider.is_agreed = True
    door.sleep(1.1)
    done = door.signon.oidc.poll_device(begun.handle)
    assert done.login is not None
    assert door.bearer(done.login.token).user == "alice"
    with pytest.raises(SignonFailed, match="used already"):
        door.signon.oidc.poll_device(begun.handle)


def test_a_provider_that_wants_fewer_polls_gets_them(
    door: Door, provider: IdentityProvider
) -> None:
    begun = door.signon.oidc.begin_device("corp")
    provider.token_error = "slow_down"
    door.sleep(1.1)
    assert door.signon.oidc.poll_device(begun.handle).interval_seconds == 6
    provider.token_error = "access_denied"
    door.sleep(6.1)
    with pytest.raises(SignonFailed, match="refused at the identity provider"):
        door.signon.oidc.poll_device(begun.handle)


def test_a_back_channel_logout_ends_the_sessions_that_it_names(
    door: Door, provider: IdentityProvider
) -> None:
    provider.person["sid"] = "s-1"
    first = log_in(door, provider).token
    provider.person["sid"] = "s-2"
    second = log_in(door, provider).token
    assert door.signon.oidc.end_sessions("corp", provider.make_logout_token(sid="s-1")) == 1
    with pytest.raises(NotLoggedIn):
        door.bearer(first)
    assert door.bearer(second).user == "alice"
    with pytest.raises(SignonFailed):
        door.signon.oidc.end_sessions("corp", provider.make_logout_token(events={}))
    assert door.signon.oidc.end_sessions("corp", provider.make_logout_token()) == 1
    with pytest.raises(NotLoggedIn):
        door.bearer(second)


def test_a_provider_that_is_down_is_named_and_local_accounts_get_in(
    door: Door, provider: IdentityProvider
) -> None:
    provider.is_down = True
    with pytest.raises(ProviderUnreachable, match="503"):
        door.signon.oidc.begin_device("corp")
    found = door.signon.check_provider("corp")
    assert (found.ok, "failed" in found.steps[-1]) == (False, True)
    assert door.peer(0).role == "admin"


def test_a_person_without_rights_is_refused_with_the_groups(
    door: Door, provider: IdentityProvider
) -> None:
    provider.person["groups"] = ["guests"]
    with pytest.raises(SignonRefused, match="guests"):
        log_in(door, provider)


def test_the_metadata_of_another_issuer_is_refused(door: Door, provider: IdentityProvider) -> None:
    settings = provider.settings | {"issuer": f"{provider.issuer}/"}
    door.signon.providers.put_provider("slash", ProviderIn(oidc=settings))
    with pytest.raises(ProviderUnreachable, match="is of the issuer"):
        door.signon.oidc.begin_code("slash", "/")


def test_a_browser_login_needs_the_pools_address(door: Door, provider: IdentityProvider) -> None:
    settings = provider.settings | {"pool_url": None}
    door.signon.providers.put_provider("corp", ProviderIn(oidc=settings))
    with pytest.raises(SignonUnavailable, match="pool's address"):
        door.signon.oidc.begin_code("corp", "/")


def test_of_several_providers_one_must_be_named(door: Door, provider: IdentityProvider) -> None:
    door.add_provider(provider, "second")
    with pytest.raises(UnknownProvider, match="2 OIDC providers: corp, second"):
        door.signon.oidc.begin_device(None)


def test_a_provider_is_never_asked_without_tls(door: Door) -> None:
    settings = {"issuer": "http://id.example.org", "client_id": "x"}
    with pytest.raises(BadOption, match="cannot be used"):
        door.signon.providers.put_provider("plain", ProviderIn.model_validate({"oidc": settings}))


def test_the_request_to_the_provider_has_pkce_state_and_nonce(door: Door) -> None:
    begun = door.signon.oidc.begin_code("corp", "/")
    fields = parse_qs(urlsplit(begun.address).query)
    assert fields["code_challenge_method"] == ["S256"]
    assert min(len(fields[name][0]) for name in ("state", "nonce", "code_challenge")) == 43
    assert fields["redirect_uri"] == ["http://127.0.0.1:8080/sso/callback"]


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/jobs?state=running", "/jobs?state=running"),
        ("//evil.example.org", "/"),
        ("https://evil.example.org", "/"),
        ("/\\evil.example.org", "/"),
        ("/a\nb", "/"),
        ("", "/"),
        ("/sso?x", "/"),
    ],
)
def test_a_login_returns_to_a_page_of_this_pool_alone(path: str, kept: str) -> None:
    assert check_return_path(path) == kept
