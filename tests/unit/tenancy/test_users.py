"""Who may make, change and delete whom."""

import pytest

from gpupool.base.errors import (
    AccountIsAUser,
    BadName,
    BadOption,
    NameTaken,
    NoPermission,
    NotFound,
    StillInUse,
    UnknownTenant,
    WrongState,
)
from gpupool.model.tenant import Principal, UserRole
from gpupool.wire.people import UserIn, UserPatch

from .conftest import House


@pytest.fixture
def boss(house: House) -> Principal:
    """The admin of tenant blue, which has the user `worker`; tenant red has the user `other`."""
    house.user("worker", "blue")
    house.user("other", "red")
    return house.user("boss", "blue", role="tenant-admin")


def test_a_tenants_admin_adds_users_to_its_own_tenant_unless_told_otherwise(
    house: House, boss: Principal
) -> None:
    made = house.tenancy.users.create(boss, UserIn(name="fresh"))
    assert (made.tenant, made.role) == ("blue", "user")


def test_a_tenants_admin_cannot_name_another_tenant_and_does_not_learn_that_it_exists(
    house: House, boss: Principal
) -> None:
    for tenant in ("red", "nowhere"):
        with pytest.raises(UnknownTenant, match="no tenant"):
            house.tenancy.users.create(boss, UserIn(name="fresh", tenant=tenant))


@pytest.mark.parametrize("role", ["admin", "agent", "scrape"])
def test_a_tenants_admin_makes_nobody_more_than_itself(
    house: House, boss: Principal, role: str
) -> None:
    with pytest.raises(NoPermission, match=role):
        house.tenancy.users.create(boss, UserIn(name="fresh", role=role))
    for name in ("worker", "boss"):
        with pytest.raises(NoPermission, match=role):
            house.tenancy.users.change(boss, name, UserPatch(role=role))


def test_a_tenants_admin_manages_no_admin_in_its_tenant(house: House, boss: Principal) -> None:
    house.user("chief", "blue", role="admin")
    with pytest.raises(NoPermission):
        house.tenancy.users.change(boss, "chief", UserPatch(disabled=True))
    with pytest.raises(NoPermission):
        house.tenancy.delete_user(boss, "chief")


def test_a_user_of_another_tenant_is_as_absent_as_a_missing_one(
    house: House, boss: Principal
) -> None:
    for name in ("other", "nobody-at-all"):
        for ask in (
            lambda name=name: house.tenancy.users.get(boss, name),
            lambda name=name: house.tenancy.users.change(boss, name, UserPatch(disabled=True)),
            lambda name=name: house.tenancy.delete_user(boss, name),
        ):
            with pytest.raises(NotFound, match=f"no user '{name}'"):
                ask()
    assert [one.name for one in house.tenancy.users.list(boss, None, 100).items] == [
        "boss",
        "worker",
    ]


def test_a_user_cannot_raise_itself(house: House) -> None:
    worker = house.user("worker", "blue")
    with pytest.raises(NoPermission):
        house.tenancy.users.change(worker, "worker", UserPatch(role="tenant-admin"))


@pytest.mark.parametrize("field", ["unix_user", "run_as"])
def test_only_an_admin_binds_users_to_unix_accounts(
    house: House, boss: Principal, field: str
) -> None:
    with pytest.raises(NoPermission, match="only an admin binds"):
        house.tenancy.users.create(boss, UserIn(name="fresh", **{field: "bob"}))
    for value in ("bob", None):
        with pytest.raises(NoPermission, match="only an admin binds"):
            house.tenancy.users.change(boss, "worker", UserPatch(**{field: value}))


@pytest.mark.parametrize("account", ["root", "0", "toor"])
def test_nobody_is_bound_to_run_as_root(house: House, account: str) -> None:
    with pytest.raises(BadOption, match="root"):
        house.tenancy.users.create(house.owner, UserIn(name="fresh", run_as=account))


def test_an_account_that_this_machine_lacks_is_refused(house: House) -> None:
    with pytest.raises(BadName, match="no Unix account 'nemo'"):
        house.tenancy.users.create(house.owner, UserIn(name="fresh", unix_user="nemo"))


def test_two_users_are_not_one_unix_account(house: House) -> None:
    house.peer(1001)
    with pytest.raises(NameTaken, match="already the user 'alice'"):
        house.tenancy.users.create(house.owner, UserIn(name="fresh", unix_user="alice"))


def test_a_bound_unix_account_is_that_user_over_the_socket(house: House) -> None:
    house.user("worker", "blue")
    house.tenancy.users.change(house.owner, "worker", UserPatch(unix_user="alice"))
    assert (house.peer(1001).user, house.peer(1001).tenant) == ("worker", "blue")
    house.tenancy.users.change(house.owner, "worker", UserPatch(unix_user=None))
    assert house.peer(1001).user == "alice"


def test_what_a_patch_does_not_name_stays(house: House) -> None:
    house.tenancy.users.create(house.owner, UserIn(name="fresh", run_as="bob", unix_user="alice"))
    changed = house.tenancy.users.change(house.owner, "fresh", UserPatch(role="viewer"))
    assert (changed.run_as, changed.unix_user, changed.role) == ("bob", "alice", "viewer")


@pytest.mark.parametrize("patch", [{"role": "user"}, {"disabled": True}])
def test_the_last_admin_stays_one(house: House, patch: dict[str, object]) -> None:
    with pytest.raises(WrongState, match="last admin"):
        house.tenancy.users.change(house.owner, "root", UserPatch(**patch))
    house.user("second", role="admin")
    house.tenancy.users.change(house.owner, "root", UserPatch(**patch))


def test_the_last_admin_is_not_deleted_and_a_disabled_one_does_not_count(house: House) -> None:
    house.user("second", role="admin")
    house.tenancy.users.change(house.owner, "second", UserPatch(disabled=True))
    with pytest.raises(WrongState, match="last admin"):
        house.tenancy.delete_user(house.owner, "root")


def test_a_user_with_jobs_is_neither_deleted_nor_moved(house: House) -> None:
    worker = house.user("worker", "blue")
    house.tenancy.tenants.create(house.owner, "red", None)
    house.jobs[("user", worker.user_id)] = 3
    with pytest.raises(StillInUse, match="3 jobs and cannot be deleted"):
        house.tenancy.delete_user(house.owner, "worker")
    with pytest.raises(StillInUse, match="cannot be moved to red"):
        house.tenancy.users.change(house.owner, "worker", UserPatch(tenant="red"))


def test_a_deleted_user_is_gone_with_its_tokens_and_can_come_back_under_its_name(
    house: House,
) -> None:
    worker = house.user("worker", "blue", role="tenant-admin")
    house.tenancy.delete_user(house.owner, "worker")
    assert house.tenancy.tokens.list(house.owner, None, 100, "worker").items == []
    with pytest.raises(NotFound):
        house.tenancy.users.get(house.owner, "worker")
    again = house.user("worker", "red")
    assert (again.user_id, again.role, again.tenant) == (worker.user_id, UserRole.USER, "red")


def test_a_tenants_admin_brings_no_deleted_user_of_another_tenant_back(
    house: House, boss: Principal
) -> None:
    house.tenancy.delete_user(house.owner, "other")
    with pytest.raises(NameTaken, match="was deleted"):
        house.tenancy.users.create(boss, UserIn(name="other"))
    house.tenancy.delete_user(house.owner, "worker")
    assert house.tenancy.users.create(boss, UserIn(name="worker")).tenant == "blue"
    assert house.tenancy.users.create(house.owner, UserIn(name="other", tenant="red"))


def test_a_name_is_given_once(house: House) -> None:
    with pytest.raises(NameTaken):
        house.tenancy.users.create(house.owner, UserIn(name="root"))


@pytest.mark.parametrize("name", ["a b", "new\nline", "-x", "j-4k9x2m7q8w", "é"])
def test_a_name_that_cannot_be_typed_is_refused(house: House, name: str) -> None:
    with pytest.raises(BadName):
        house.tenancy.users.create(house.owner, UserIn(name=name))


def test_a_list_goes_on_where_its_page_ended(house: House) -> None:
    for n in range(5):
        house.user(f"u{n}")
    seen, after = [], None
    while True:
        page = house.tenancy.users.list(house.owner, after, 2)
        assert len(page.items) <= 2
        seen += [one.name for one in page.items]
        after = page.next
        if after is None:
            break
    assert seen == ["root", "u0", "u1", "u2", "u3", "u4"]


def test_one_person_is_one_user_whichever_way_it_comes_first(house: House) -> None:
    made = house.tenancy.users.create(house.owner, UserIn(name="alice", run_as="alice"))
    assert (made.unix_user, made.run_as) == ("alice", "alice")
    assert house.peer(1001).user == "alice"
    assert house.peer(1002).user == "bob"
    with pytest.raises(AccountIsAUser, match="uid 1002 is the user bob") as refused:
        house.tenancy.users.create(house.owner, UserIn(name="robert", run_as="bob"))
    assert "gpupool user set bob --run-as" in refused.value.hint
    assert house.tenancy.users.change(house.owner, "bob", UserPatch(run_as="bob")).run_as == "bob"
    assert {one.name for one in house.tenancy.users.list(house.owner, None, 10).items} == {
        "root",
        "alice",
        "bob",
    }


def test_a_second_user_of_an_account_has_to_be_asked_for(house: House) -> None:
    house.peer(1002)
    second = house.tenancy.users.create(
        house.owner, UserIn(name="ci", unix_user=None, run_as="bob")
    )
    assert (second.unix_user, second.run_as) == (None, "bob")
    house.user("late")
    with pytest.raises(AccountIsAUser):
        house.tenancy.users.change(house.owner, "late", UserPatch(run_as="bob"))
    kept = house.tenancy.users.change(house.owner, "late", UserPatch(unix_user=None, run_as="bob"))
    assert (kept.unix_user, kept.run_as) == (None, "bob")
