"""Leavers of a provider without a list of its persons, and the brake on a wrong filter."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, NotLoggedIn, SignonRefused
from gpupool.signon.leaver_facts import LOST_GROUPS, LeaverChoice
from gpupool.signon.leavers import find_leaving
from gpupool.signon.rule_service import read_rules
from gpupool.wire.people import TokenIn, UserIn
from gpupool.wire.signon import SyncIn
from tests.support.identity_provider import IdentityProvider
from tests.unit.signon.conftest import Door

DAY = 86400


@pytest.fixture(autouse=True)
def known(door: Door, provider: IdentityProvider) -> None:
    door.add_provider(provider)
    door.rule(None)


def test_a_person_that_did_not_log_in_for_long_is_a_leaver_and_its_jobs_end(door: Door) -> None:
    early = door.log_in("alice").token
    user_id = door.bearer(early).user_id
    door.jobs[user_id] = 3
    made = door.tenancy.tokens.create(door.owner, TokenIn(user="alice")).token or ""
    door.sleep(40 * DAY)
    door.log_in("bob")
    body = SyncIn(provider="corp", unseen_days=30, jobs="stop")
    dry = door.signon.sync(door.owner, body.model_copy(update={"dry_run": True}))
    assert [(row.user, row.jobs) for row in dry.leavers] == [("alice", 3)]
    assert door.bearer(made).user == "alice"
    done = door.signon.sync(door.owner, body)
    assert (done.checked, len(done.leavers), done.stopped) == (2, 1, 3)
    assert door.stopped == [user_id]
    with pytest.raises(NotLoggedIn):
        door.bearer(made)
    assert door.signon.sync(door.owner, body).checked == 1


def test_a_person_that_logs_in_during_a_sync_is_no_leaver(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_id = door.bearer(door.log_in("alice").token).user_id
    door.jobs[user_id] = 1
    door.sleep(40 * DAY)
    choose = door.choose
    sessions: list[str] = []

    def log_in_meanwhile(*facts: Any) -> LeaverChoice:
        # Between the look at the directory and the first transaction.
        if not sessions:
            sessions.append(door.log_in("alice").token)
        return choose(*facts)

    monkeypatch.setattr(door, "choose", log_in_meanwhile)
    done = door.signon.sync(door.owner, SyncIn(provider="corp", unseen_days=30, jobs="stop"))
    assert door.bearer(sessions[0]).user == "alice"
    assert (done.leavers, door.stopped) == ([], [])


def test_a_sync_leaves_the_next_user_of_a_leavers_name_alone(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "bob"):
        door.log_in(name)
    door.sleep(40 * DAY)
    choose = door.choose
    made: list[str] = []

    def make_anew(name: str) -> None:
        made.append(name)
        door.tenancy.delete_user(door.owner, name)
        door.tenancy.users.create(door.owner, UserIn(name=name))

    def make_anew_meanwhile(*facts: Any) -> LeaverChoice:
        if "bob" not in made:
            make_anew("bob")
        return choose(*facts)

    make_anew("alice")
    monkeypatch.setattr(door, "choose", make_anew_meanwhile)
    done = door.signon.sync(door.owner, SyncIn(provider="corp", unseen_days=30, jobs="stop"))
    assert (done.checked, done.leavers, door.stopped) == (1, [], [])
    for name in made:
        assert not door.tenancy.users.get(door.owner, name).disabled


def test_a_person_of_the_directory_leaves_without_a_role_in_the_tenant_of_its_jobs(
    door: Door,
) -> None:
    door.forget_rules()
    door.rule("vision", "user", "vision")
    door.rule("nlp", "user", "nlp")
    with door.store.read() as connection:
        rules = read_rules(connection)
    cases = {
        ("guests",): (LOST_GROUPS, LOST_GROUPS),
        ("nlp",): (None, None),
        ("nlp", "vision"): (None, "its groups now give rights in the tenant vision"),
    }
    for groups, expected in cases.items():
        person = door.person("alice", *groups)
        found = tuple(
            find_leaving(rules, person, "nlp", has_jobs=has_jobs) for has_jobs in (False, True)
        )
        assert found == expected


def test_an_oidc_provider_needs_a_number_of_days(door: Door) -> None:
    with pytest.raises(BadOption, match="lists no persons"):
        door.signon.sync(door.owner, SyncIn(provider="corp"))


def test_a_sync_that_would_disable_most_is_refused_without_force(door: Door) -> None:
    for number in range(10):
        door.log_in(f"person-{number}")
    door.sleep(40 * DAY)
    body = SyncIn(provider="corp", unseen_days=30)
    with pytest.raises(SignonRefused, match="10 of 10"):
        door.signon.sync(door.owner, body)
    assert not door.tenancy.users.get(door.owner, "person-3").disabled
    forced = body.model_copy(update={"force": True})
    assert len(door.signon.sync(door.owner, forced).leavers) == 10
    assert door.tenancy.users.get(door.owner, "person-3").disabled
