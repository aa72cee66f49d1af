"""A login gives what the rules say now: at the first, at every later one, and when rules are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import NotLoggedIn, SignonRefused
from gpupool.model.tenant import UserRole
from gpupool.wire.people import TokenIn, UserPatch
from gpupool.wire.signon import LoginExplainIn
from tests.unit.signon.conftest import Door


def test_a_first_login_makes_a_user_with_the_rights_of_its_group(door: Door) -> None:
    door.rule("nlp-lead", "tenant-admin", "nlp", project="default")
    caller = door.bearer(door.log_in("alice", "other", "nlp-lead").token)
    assert (caller.user, caller.role, caller.tenant) == ("alice", UserRole.TENANT_ADMIN, "nlp")
    assert caller.project == "default"
    assert door.events("signon.login") == [{"provider": "corp"}]


def test_a_login_without_a_rule_is_refused_with_its_groups(door: Door) -> None:
    door.rule("nlp")
    with pytest.raises(SignonRefused, match="the groups guests, interns") as refused:
        door.log_in("alice", "guests", "interns")
    assert refused.value.details["groups"] == ["guests", "interns"]
    assert [one.name for one in door.tenancy.users.list(door.owner, None, 10).items] == ["root"]


def test_identity_is_issuer_and_subject_and_never_the_name(door: Door) -> None:
    door.rule(None)
    first = door.log_in("alice")
    second = door.log_in("alice", subject="another")
    renamed = door.log_in("alice.b", subject="sub-alice")
    assert (first.user, second.user, renamed.user) == ("alice", "alice-2", "alice")


def test_a_name_that_a_local_user_has_is_not_taken_over(door: Door) -> None:
    door.user("alice", role="admin")
    door.rule(None)
    login = door.log_in("alice")
    assert (login.user, login.role) == ("alice-2", "user")


def test_rights_follow_the_groups_at_the_next_login_and_end_earlier_sessions(door: Door) -> None:
    door.rule("lead", "tenant-admin")
    door.rule("nlp", "user")
    earlier = door.log_in("alice", "lead", "nlp").token
    later = door.log_in("alice", "nlp").token
    with pytest.raises(NotLoggedIn):
        door.bearer(earlier)
    assert door.bearer(later).role is UserRole.USER


def test_a_login_without_rights_disables_the_user_and_all_its_tokens(door: Door) -> None:
    door.rule("nlp")
    session = door.log_in("alice", "nlp").token
    with pytest.raises(SignonRefused):
        door.log_in("alice")
    with pytest.raises(NotLoggedIn):
        door.bearer(session)
    assert door.tenancy.users.get(door.owner, "alice").disabled
    with pytest.raises(SignonRefused):
        door.log_in("alice")
    # The second refusal finds it disabled: one leaver, with time for its groups to come back.
    (leaver,) = door.leavers
    assert (leaver.provider, leaver.by, leaver.grace_seconds) == ("corp", "corp", 3600)
    assert leaver.reason == "no rule matches its groups any more"
    assert door.log_in("alice", "nlp").user == "alice"
    assert not door.tenancy.users.get(door.owner, "alice").disabled


def test_a_user_that_an_admin_disabled_is_not_enabled_by_a_login(door: Door) -> None:
    door.rule("nlp")
    door.log_in("alice", "nlp")
    door.tenancy.users.change(door.owner, "alice", UserPatch(disabled=True))
    with pytest.raises(SignonRefused, match="disabled by an admin"):
        door.log_in("alice", "nlp")


def test_an_admins_disabling_counts_also_after_one_by_the_rules(door: Door) -> None:
    door.rule("nlp")
    door.log_in("alice", "nlp")
    with pytest.raises(SignonRefused):
        door.log_in("alice")
    door.tenancy.users.change(door.owner, "alice", UserPatch(disabled=False))
    door.sleep(1)
    door.tenancy.users.change(door.owner, "alice", UserPatch(disabled=True))
    with pytest.raises(SignonRefused, match="disabled by an admin"):
        door.log_in("alice", "nlp")


def test_an_admin_disables_for_good_what_the_rules_disabled_already(door: Door) -> None:
    door.rule("nlp")
    door.log_in("alice", "nlp")
    with pytest.raises(SignonRefused):
        door.log_in("alice")
    door.sleep(1)
    door.tenancy.users.change(door.owner, "alice", UserPatch(disabled=True))
    with pytest.raises(SignonRefused, match="disabled by an admin"):
        door.log_in("alice", "nlp")


def test_a_role_of_the_pool_by_a_login_ends_tokens_that_a_tenants_admin_made(door: Door) -> None:
    door.rule("boss", "admin", "nlp")
    door.rule("nlp")
    lead = door.user("lead", tenant="nlp", role="tenant-admin")
    door.log_in("alice", "nlp")
    foreign = door.tenancy.tokens.create(lead, TokenIn(user="alice")).token or ""
    assert door.bearer(foreign).user == "alice"
    assert door.log_in("alice", "boss").role == "admin"
    with pytest.raises(NotLoggedIn):
        door.bearer(foreign)


def test_a_user_that_an_admin_moves_leaves_the_project_of_its_rule(door: Door) -> None:
    door.tenancy.tenants.create_project(door.owner, "nlp", "deep")
    door.rule("nlp", project="deep")
    assert door.bearer(door.log_in("alice", "nlp").token).project == "deep"
    door.tenancy.users.change(door.owner, "alice", UserPatch(tenant="vision"))
    made = door.tenancy.tokens.create(door.owner, TokenIn(user="alice")).token or ""
    assert door.bearer(made).project is None


def test_a_change_of_tenant_makes_a_leaver_of_the_earlier_one(door: Door) -> None:
    door.rule("nlp", "user", "nlp")
    door.rule("vision", "user", "vision")
    session = door.log_in("alice", "nlp").token
    user_id = door.bearer(session).user_id
    made = door.tenancy.tokens.create(door.owner, TokenIn(user="alice")).token or ""
    tenant_id = door.bearer(made).tenant_id
    door.jobs[user_id] = 2
    with pytest.raises(SignonRefused, match="2 jobs"):
        door.log_in("alice", "vision")
    for ended in (session, made):
        with pytest.raises(NotLoggedIn):
            door.bearer(ended)
    (leaver,) = door.leavers
    assert (leaver.user_id, leaver.tenant_id) == (user_id, tenant_id)
    assert leaver.reason == "its groups now give rights in the tenant vision"
    del door.jobs[user_id]
    assert door.log_in("alice", "vision").tenant == "vision"
    assert not door.tenancy.users.get(door.owner, "alice").disabled


def test_a_mover_without_jobs_is_no_leaver(door: Door) -> None:
    door.rule("nlp", "user", "nlp")
    door.rule("vision", "user", "vision")
    door.log_in("alice", "nlp")
    assert door.log_in("alice", "vision").tenant == "vision"
    assert door.leavers == []


@pytest.mark.parametrize(
    ("name", "uid"), [("alice", 1001), ("root", None), ("daemon", None), ("nobody-here", None)]
)
def test_jobs_run_as_a_persons_account_and_never_as_the_systems(
    name: str, uid: int | None, door: Door
) -> None:
    door.rule(None, run_as="{preferred_username}")
    unix = door.bearer(door.log_in(name).token).unix
    assert (None if unix is None else unix.uid) == uid


@pytest.mark.parametrize(("name", "account"), [("alice", "alice"), ("daemon", None)])
def test_explain_names_the_account_that_a_login_gets(
    name: str, account: str | None, door: Door
) -> None:
    door.rule(None, run_as="{preferred_username}")
    told = door.signon.rules.explain(LoginExplainIn(groups=[], user=name))
    assert told.run_as == account


def test_a_person_known_on_the_machine_stays_one_user(door: Door) -> None:
    on_machine = door.peer(1001)
    door.rule(None, run_as="{preferred_username}")
    assert door.bearer(door.log_in("alice").token).user_id == on_machine.user_id


def test_an_admin_of_the_machine_is_not_reached_by_a_claim(door: Door) -> None:
    door.user("boss", role="admin", unix_user="alice")
    door.rule(None, run_as="{preferred_username}")
    login = door.log_in("alice")
    assert (login.user, login.role) == ("alice", "user")
    assert door.tenancy.users.get(door.owner, "boss").role == "admin"


def test_a_login_of_a_deleted_user_is_refused(door: Door) -> None:
    door.rule("nlp")
    door.log_in("alice", "nlp")
    door.tenancy.delete_user(door.owner, "alice")
    with pytest.raises(SignonRefused, match="alice of this login was deleted"):
        door.log_in("alice", "nlp")


def test_a_former_login_does_not_enter_the_next_user_of_its_name(door: Door) -> None:
    door.rule("nlp")
    door.log_in("alice", "nlp")
    door.tenancy.delete_user(door.owner, "alice")
    next_alice = door.user("alice", tenant="vision", role="tenant-admin")
    login = door.log_in("alice", "nlp")
    assert (login.user, login.tenant, login.role) == ("alice-2", "nlp", "user")
    # Without rights it is refused, and the next user keeps its own.
    with pytest.raises(SignonRefused):
        door.log_in("alice")
    found = door.tenancy.users.get(door.owner, "alice")
    assert (found.tenant, found.role, found.disabled) == ("vision", "tenant-admin", False)
    assert [leaver.user_id for leaver in door.leavers] != [next_alice.user_id]


def test_a_former_login_does_not_enter_a_user_that_its_account_brings_back(door: Door) -> None:
    door.rule("nlp")
    on_machine = door.peer(1001)
    door.rule(None, run_as="{preferred_username}")
    assert door.bearer(door.log_in("alice").token).user_id == on_machine.user_id
    door.tenancy.delete_user(door.owner, "alice")
    assert door.peer(1001).user_id == on_machine.user_id
    assert door.log_in("alice", "nlp").user == "alice-2"


def test_the_next_user_of_a_name_gets_a_login_of_its_own(door: Door) -> None:
    door.rule(None, run_as="{preferred_username}")
    door.log_in("alice")
    door.tenancy.delete_user(door.owner, "alice")
    next_alice = door.user("alice", unix_user="alice")
    assert door.bearer(door.log_in("alice", subject="next").token).user_id == next_alice.user_id


@pytest.mark.parametrize("end", ["stays", "disabled", "deleted", "renamed"])
def test_the_next_person_of_a_name_does_not_run_as_the_former_ones_account(
    door: Door, end: str
) -> None:
    door.rule(None, run_as="{preferred_username}")
    assert read_uid(door, "alice", "sub-alice") == 1001
    if end == "disabled":
        door.tenancy.users.change(door.owner, "alice", UserPatch(disabled=True))
    elif end == "deleted":
        door.tenancy.delete_user(door.owner, "alice")
    elif end == "renamed":
        assert read_uid(door, "bob", "sub-alice") == 1002
    assert read_uid(door, "alice", "sub-next") is None
    if end == "stays":
        assert read_uid(door, "alice", "sub-alice") == 1001


def test_an_admin_gives_the_next_person_of_a_name_its_account(door: Door) -> None:
    door.rule(None, run_as="{preferred_username}")
    door.log_in("alice")
    door.tenancy.delete_user(door.owner, "alice")
    assert door.log_in("alice", subject="sub-next").user == "alice-2"
    door.tenancy.users.change(door.owner, "alice-2", UserPatch(run_as="alice"))
    assert read_uid(door, "alice", "sub-next") == 1001


def test_persons_share_an_account_that_has_another_name(door: Door) -> None:
    door.rule(None, run_as="{team}")
    for name in ("carol", "dave"):
        claims = {"preferred_username": name, "team": "bob"}
        assert door.bearer(door.log_in(name, claims=claims).token).unix is not None


def test_one_person_of_two_providers_has_one_account(door: Door) -> None:
    door.rule(None, run_as="{preferred_username}")
    assert read_uid(door, "alice", "sub-alice") == 1001
    other = replace(door.person("alice"), provider="staff", issuer="ldaps://staff")
    token = door.signon.sessions.open_token(other).token
    assert door.bearer(token).unix is not None


def read_uid(door: Door, name: str, subject: str) -> int | None:
    """Read what jobs of a person run as after a login."""
    unix = door.bearer(door.log_in(name, subject=subject).token).unix
    return None if unix is None else unix.uid
