"""Who a caller is, from the kernel's word or a token, and whom its jobs run as."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from gpupool.base.errors import NoPermission, NotLoggedIn, NoUnixUser
from gpupool.model.tenant import UserRole
from gpupool.tenancy.identity import USED_EVERY_NS
from gpupool.tenancy.tables import tokens
from gpupool.wire.people import TokenIn, UserIn, UserPatch

from .conftest import House, peer


def statements(house: House) -> list[str]:
    """Collects every statement sent to the database from here on."""
    seen: list[str] = []
    sa.event.listen(house.store.engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    return seen


def test_an_unknown_unix_user_joins_the_default_tenant_under_its_own_name(house: House) -> None:
    alice = house.peer(1001)
    assert (alice.user, alice.tenant, alice.role, alice.local) == (
        "alice",
        "default",
        UserRole.USER,
        True,
    )
    assert ("user.created", "alice") in house.events()


def test_an_account_without_a_name_joins_under_its_number(house: House) -> None:
    assert house.peer(4242).user == "uid-4242"


def test_an_account_whose_name_no_user_can_have_gets_one_made_from_it(house: House) -> None:
    assert [house.peer(1003).user, house.peer(1004).user] == ["svc", "uid-1004"]


def test_an_account_never_becomes_a_user_that_only_has_its_name(house: House) -> None:
    house.user("alice", role="admin")
    joined = house.peer(1001)
    assert (joined.user, joined.role) == ("alice-1001", UserRole.USER)


def test_two_accounts_that_would_share_a_name_get_two(house: House) -> None:
    assert house.peer(1006).user == "uid-1005"
    assert house.peer(1005).user not in ("uid-1005", "")


def test_joining_at_the_same_moment_makes_one_user(house: House) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(house.peer(1002).user_id)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_known_unix_user_costs_no_statement(house: House) -> None:
    first = house.peer(1001), house.peer(1001)
    seen = statements(house)
    assert house.peer(1001) == first[1]
    assert house.tenancy.identity.peek_peer(peer(1001)) == first[1]
    assert seen == []


def test_a_known_token_costs_no_statement(house: House) -> None:
    house.user("carol")
    text = house.token("carol")
    house.tenancy.principal_for_token(text)
    seen = statements(house)
    assert house.tenancy.identity.peek_token(text, None) == house.tenancy.principal_for_token(text)
    assert seen == []


def test_a_change_of_role_counts_at_once(house: House) -> None:
    assert house.peer(1001).role is UserRole.USER
    house.tenancy.users.change(house.owner, "alice", UserPatch(role="viewer"))
    assert house.peer(1001).role is UserRole.VIEWER


def test_what_was_read_before_a_change_is_not_remembered_after_it(house: House) -> None:
    known = house.tenancy.identity._peers
    epoch = known.epoch
    house.peer(1001)
    stale = known.get(1001)
    house.tenancy.users.change(house.owner, "alice", UserPatch(role="viewer"))
    known.put(1001, stale, epoch)  # type: ignore[arg-type]
    assert house.peer(1001).role is UserRole.VIEWER


def test_a_disabled_user_is_refused_by_socket_and_by_token(house: House) -> None:
    house.peer(1001)
    text = house.token("alice")
    house.tenancy.principal_for_token(text)
    house.tenancy.users.change(house.owner, "alice", UserPatch(disabled=True))
    with pytest.raises(NoPermission, match="alice is disabled"):
        house.peer(1001)
    with pytest.raises(NotLoggedIn):
        house.tenancy.principal_for_token(text)
    house.tenancy.users.change(house.owner, "alice", UserPatch(disabled=False))
    assert house.tenancy.principal_for_token(text).user == "alice"


def test_a_deleted_unix_user_that_calls_again_joins_anew_with_no_more_rights(house: House) -> None:
    house.peer(1001)
    house.tenancy.users.change(house.owner, "alice", UserPatch(role="admin"))
    house.tenancy.delete_user(house.owner, "alice")
    back = house.peer(1001)
    assert (back.user, back.role, back.tenant) == ("alice", UserRole.USER, "default")


def test_a_token_that_ends_while_it_is_remembered_ends(house: House) -> None:
    house.user("carol")
    made = house.tenancy.tokens.create(house.owner, TokenIn(user="carol", expires_seconds=60))
    assert house.tenancy.principal_for_token(made.token or "").user == "carol"
    house.sleep(60 * 10**9)
    with pytest.raises(NotLoggedIn):
        house.tenancy.principal_for_token(made.token or "")


def test_the_last_use_of_a_token_is_written_at_most_once_a_minute(house: House) -> None:
    house.user("carol")
    text = house.token("carol")

    def used_after(nanoseconds: int) -> int:
        house.sleep(nanoseconds)
        house.tenancy.principal_for_token(text)
        with house.store.read() as connection:
            return connection.execute(sa.select(sa.func.max(tokens.c.last_used_ns))).scalar_one()

    first = used_after(0)
    assert used_after(USED_EVERY_NS - 1) == first
    assert used_after(1) == first + USED_EVERY_NS


def test_over_the_socket_jobs_run_as_exactly_the_caller(house: House) -> None:
    run_as = house.tenancy.run_as(house.peer(1002), peer(1002))
    assert (run_as.uid, run_as.gid, run_as.groups, run_as.name) == (1002, 1002, [1002, 44], "bob")


def test_over_the_socket_a_token_changes_the_user_and_not_the_account(house: House) -> None:
    house.tenancy.users.create(house.owner, UserIn(name="carol", run_as="bob"))
    caller = house.tenancy.principal_for_token(house.token("carol"), peer(1001))
    assert (caller.user, caller.local) == ("carol", True)
    assert house.tenancy.run_as(caller, peer(1001)).uid == 1001


def test_over_the_network_jobs_run_as_the_bound_account_with_its_groups(house: House) -> None:
    house.tenancy.users.create(house.owner, UserIn(name="carol", run_as="bob"))
    caller = house.tenancy.principal_for_token(house.token("carol"))
    run_as = house.tenancy.run_as(caller, None)
    assert (run_as.uid, run_as.groups, run_as.name) == (1002, [1002, 27], "bob")
    assert not caller.local


def test_over_the_network_without_a_binding_is_refused_with_what_to_type(house: House) -> None:
    with pytest.raises(NoUnixUser) as refusal:
        house.tenancy.run_as(house.user("carol"), None)
    assert refusal.value.hint == "an admin types: gpupool user set carol --run-as ACCOUNT"


def test_over_the_network_nothing_runs_as_root_even_if_the_account_became_root(
    house: House,
) -> None:
    house.tenancy.users.create(house.owner, UserIn(name="carol", run_as="bob"))
    with house.store.write() as write:
        write.execute(sa.text("UPDATE users SET run_as_uid = 0 WHERE name = 'carol'"))
        write.announce("people")
    caller = house.tenancy.principal_for_token(house.token("carol"))
    with pytest.raises(NoUnixUser, match="as root"):
        house.tenancy.run_as(caller, None)


def test_the_owner_of_a_system_pool_over_the_network_is_not_root_either(house: House) -> None:
    caller = house.tenancy.principal_for_token(house.token("root"))
    with pytest.raises(NoUnixUser):
        house.tenancy.run_as(caller, None)


def test_a_bound_account_that_is_gone_runs_nothing(house: House) -> None:
    house.tenancy.users.create(house.owner, UserIn(name="carol", run_as="bob"))
    house.machine.remove("bob")
    with pytest.raises(NoUnixUser):
        house.tenancy.run_as(house.tenancy.principal_for_token(house.token("carol")), None)


def test_in_a_users_own_pool_jobs_run_as_its_owner_whoever_asks(own: House) -> None:
    own.user("carol")
    by_token = own.tenancy.principal_for_token(own.token("carol"))
    callers = [(own.peer(0), peer(0)), (own.peer(1001), peer(1001)), (by_token, None)]
    assert [own.tenancy.run_as(caller, at).uid for caller, at in callers] == [1001] * 3
    assert by_token.unix is not None
    assert by_token.unix.uid == 1001
