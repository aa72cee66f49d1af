"""The machine's Unix accounts by name and uid; root is the one that every machine has."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadName
from gpupool.model.tenant import UnixIdentity
from gpupool.tenancy.accounts import UnixAccounts, find_account

ROOT = UnixIdentity(0, 0, "root")


def test_an_account_is_found_by_name_by_uid_and_by_digits() -> None:
    accounts = UnixAccounts()
    found = [accounts.by_name("root"), accounts.by_uid(0), accounts.by_name("0")]
    assert found == [ROOT] * 3


@pytest.mark.parametrize("name", ["", "no such account", "ro\0ot", "²", str(2**40)])
def test_a_name_of_no_account_is_none(name: str) -> None:
    assert UnixAccounts().by_name(name) is None


def test_a_uid_beyond_the_kernels_range_is_no_account() -> None:
    assert UnixAccounts().by_uid(2**40) is None


def test_groups_of_an_account_are_sorted_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getgrouplist", lambda _name, gid: [44, gid, 27, 44])
    assert UnixAccounts().groups(ROOT) == [0, 27, 44]


def test_find_account_of_a_missing_name_is_refused_with_it() -> None:
    assert find_account(UnixAccounts(), "root") == ROOT
    with pytest.raises(BadName, match=r"no Unix account 'x{80}'"):
        find_account(UnixAccounts(), "x" * 200)
