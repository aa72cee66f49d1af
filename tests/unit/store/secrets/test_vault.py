"""Secrets in the database: encrypted, bound to their row, and by a key that can be changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import SecretDamaged, SecretKeyMissing, SecretKeyUnusable, SecretKeyWrong
from gpupool.host.leadership.takeover import find_key_problem
from gpupool.server.migrate import prepare_database
from gpupool.signon.tables import providers
from gpupool.store.database import Store, connect, new_store, sqlite_url
from gpupool.store.secrets.key_file import KeyFile
from gpupool.store.secrets.tables import secret_state
from gpupool.store.secrets.vault import read_key_id

COLUMN = providers.c.secret
NAME = "signon_providers/secret"


class Pool:
    """A database with a key file beside it; `open` is a start of its server."""

    def __init__(self, root: Path) -> None:
        self.database = root / "gpupool.db"
        self.key = root / "secrets" / "secret.key"
        engine = connect(sqlite_url(self.database))
        prepare_database(engine, 1, "p-1")
        engine.dispose()
        self.store = self.open()

    def open(self, fault: Callable[..., None] | None = None) -> Store:
        more: dict[str, Any] = {} if fault is None else {"fault": fault}
        store = new_store(
            connect(sqlite_url(self.database), busy_seconds=1), keys=KeyFile(self.key), **more
        )
        store.take("here")
        store.secrets.begin(store)
        self.store = store
        return store

    def save(self, name: str, secret: str) -> None:
        with self.store.write() as write:
            encrypted = self.store.secrets.encrypt(write, COLUMN, name, secret)
            values = {"name": name, "kind": "ldap", "settings": {}, "created_ns": 1}
            write.insert(providers, secret=encrypted, **values)

    def save_in_clear(self, name: str, secret: str) -> None:
        """As a version before encryption stored it."""
        values = {"name": name, "kind": "ldap", "settings": {}, "created_ns": 1}
        with self.store.write() as write:
            write.insert(providers, secret=secret, **values)

    def load(self, name: str) -> str:
        with self.store.read() as connection:
            query = sa.select(COLUMN).where(providers.c.name == name)
            text = connection.execute(query).scalar_one()
        return self.store.secrets.decrypt(COLUMN, name, text)

    def key_id(self) -> str | None:
        with self.store.read() as connection:
            return read_key_id(connection)

    def bytes(self) -> bytes:
        """Everything that a copy of the database's files has."""
        files = sorted(self.database.parent.glob("gpupool.db*"))
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool(tmp_path)


def test_a_pool_without_secrets_has_no_key_and_needs_none(pool: Pool) -> None:
    assert not pool.key.exists()
    assert pool.key_id() is None
    assert pool.store.secrets.check().state == "ok"
    pool.save("empty", "")
    assert not pool.key.exists()


def test_a_secret_is_nowhere_in_the_database_and_survives_a_restart(pool: Pool) -> None:
    pool.save("one", "hunter2-hunter2")
    assert pool.key.stat().st_mode & 0o777 == 0o600
    assert b"hunter2" not in pool.bytes()
    pool.store.close()
    pool.open()
    assert pool.load("one") == "hunter2-hunter2"
    assert pool.store.secrets.check().state == "ok"


def test_what_was_stored_in_clear_is_encrypted_at_the_next_start(pool: Pool) -> None:
    for n in range(3):
        pool.save_in_clear(f"old-{n}", f"clear-text-{n}")
    pool.store.close()
    pool.open()
    assert [pool.load(f"old-{n}") for n in range(3)] == [f"clear-text-{n}" for n in range(3)]
    with pool.store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"clear-text" not in pool.bytes()


@pytest.mark.parametrize("step", ["before-commit", "after-commit"])
def test_encryption_that_was_killed_is_whole_or_not_begun(pool: Pool, step: str) -> None:
    pool.save_in_clear("old-0", "clear-0")
    pool.save_in_clear("old-1", "clear-1")
    pool.store.close()

    def die(now: str, _subjects: object) -> None:
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.open(die)
    key = pool.key.read_bytes()
    pool.open()
    assert [pool.load("old-0"), pool.load("old-1")] == ["clear-0", "clear-1"]
    # The key that was made is used, not a second one.
    assert pool.key.read_bytes() == key


def uncover(pool: Pool) -> None:
    """Make it a database of a version that did not mark the column: it has one secret in clear."""
    pool.save("one", "secret-1")
    with pool.store.write() as write:
        query = sa.select(secret_state.c.covered)
        covered = [name for name in write.execute(query).scalar_one() if name != NAME]
        write.execute(secret_state.update().values(covered=covered))
        write.execute(providers.update().values(secret="clear-text-1"))
    pool.store.close()


@pytest.mark.parametrize("step", ["before-commit", "after-commit"])
def test_columns_that_a_later_version_marks_are_encrypted_at_its_first_start(
    pool: Pool, step: str
) -> None:
    uncover(pool)
    key = pool.key.read_bytes()

    def die(now: str, _subjects: object) -> None:
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.open(die)
    pool.open()
    assert (pool.load("one"), pool.key.read_bytes()) == ("clear-text-1", key)
    with pool.store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"clear-text" not in pool.bytes()
    with pytest.raises(SecretDamaged):
        pool.store.secrets.decrypt(COLUMN, "one", "in clear")


def test_columns_that_are_marked_later_wait_for_a_key_that_is_missing(pool: Pool) -> None:
    uncover(pool)
    aside = pool.key.read_bytes()
    pool.key.unlink()
    pool.open()
    assert pool.load("one") == "clear-text-1"
    pool.key.write_bytes(aside)
    pool.key.chmod(0o600)
    pool.save("two", "secret-2")
    assert [pool.load("one"), pool.load("two")] == ["clear-text-1", "secret-2"]
    with pytest.raises(SecretDamaged):
        pool.store.secrets.decrypt(COLUMN, "one", "in clear")


def test_a_value_of_another_row_or_an_altered_one_is_refused(pool: Pool) -> None:
    pool.save("mine", "my-secret")
    pool.save("theirs", "their-secret")
    with pool.store.write() as write:
        query = sa.select(COLUMN).where(providers.c.name == "theirs")
        stolen = write.execute(query).scalar_one()
        mine = providers.update().where(providers.c.name == "mine")
        write.execute(mine.values(secret=stolen))
    with pytest.raises(SecretDamaged) as refused:
        pool.load("mine")
    assert refused.value.code == "GP-2273"
    with pytest.raises(SecretDamaged):
        pool.store.secrets.decrypt(COLUMN, "theirs", stolen[:-6] + "AAAAA=")
    with pytest.raises(SecretDamaged):
        pool.store.secrets.decrypt(COLUMN, "theirs", "in clear")


def test_a_missing_key_stops_no_start_and_is_never_made_anew(pool: Pool) -> None:
    pool.save("one", "secret-1")
    pool.store.close()
    aside = pool.key.read_bytes()
    pool.key.unlink()
    pool.open()
    with pytest.raises(SecretKeyMissing):
        pool.load("one")
    with pytest.raises(SecretKeyMissing):
        pool.save("two", "secret-2")
    assert not pool.key.exists()
    found = pool.store.secrets.check()
    assert found.state == "fail"
    assert "GP-2270" in found.text
    # Put back, it works without a restart.
    pool.key.write_bytes(aside)
    pool.key.chmod(0o600)
    assert pool.load("one") == "secret-1"


def test_a_wrong_key_is_named_with_the_one_that_is_needed(pool: Pool) -> None:
    pool.save("one", "secret-1")
    needed = pool.key_id()
    pool.key.unlink()
    other = KeyFile(pool.key).read_or_make()[0].id
    pool.store.close()
    pool.open()
    with pytest.raises(SecretKeyWrong) as refused:
        pool.load("one")
    assert refused.value.details["key"] == needed
    assert other in refused.value.message


def test_a_key_that_goes_missing_later_is_a_warning_until_the_next_start(pool: Pool) -> None:
    pool.save("one", "secret-1")
    pool.key.unlink()
    assert pool.load("one") == "secret-1"
    found = pool.store.secrets.check()
    assert (found.state, "until the next start" in found.text) == ("warn", True)


def test_a_key_file_that_others_may_read_is_refused(pool: Pool) -> None:
    pool.save("one", "secret-1")
    pool.store.close()
    pool.key.chmod(0o644)
    pool.open()
    with pytest.raises(SecretKeyUnusable, match="0644"):
        pool.load("one")


def test_a_rotation_encrypts_all_and_keeps_older_keys_unless_told(pool: Pool) -> None:
    pool.save("one", "secret-1")
    pool.save("two", "secret-2")
    first = pool.key_id()
    state = pool.store.secrets.rotate(pool.store)
    assert (state.values, state.other_keys, state.problem) == (2, 1, None)
    assert state.key_id not in (None, first)
    assert [pool.load("one"), pool.load("two")] == ["secret-1", "secret-2"]
    state = pool.store.secrets.rotate(pool.store, drop_old=True)
    assert state.other_keys == 0
    pool.store.close()
    pool.open()
    assert [pool.load("one"), pool.load("two")] == ["secret-1", "secret-2"]


@pytest.mark.parametrize("step", ["before-commit", "after-commit"])
def test_a_rotation_that_was_killed_goes_on_with_its_new_key(pool: Pool, step: str) -> None:
    pool.save("one", "secret-1")
    pool.store.close()

    def die(now: str, subjects: Callable[[], frozenset[str]]) -> None:
        if now == step and "secrets.rotated" in subjects():
            raise KeyboardInterrupt

    pool.open(die)
    with pytest.raises(KeyboardInterrupt):
        pool.store.secrets.rotate(pool.store)
    made = KeyFile(pool.key).read()[0].id
    pool.open()
    assert pool.load("one") == "secret-1"
    if step == "before-commit":
        assert pool.store.secrets.rotate(pool.store).key_id == made
    assert pool.key_id() == made
    assert pool.load("one") == "secret-1"


def test_a_lost_key_is_given_up_on_request_and_its_secrets_stay_refused(pool: Pool) -> None:
    pool.save("old", "secret-1")
    pool.store.close()
    pool.key.unlink()
    pool.open()
    with pytest.raises(SecretKeyMissing):
        pool.store.secrets.rotate(pool.store)
    assert pool.store.secrets.rotate(pool.store, give_up_lost=True).problem is None
    pool.save("new", "secret-2")
    pool.store.close()
    pool.open()
    assert pool.load("new") == "secret-2"
    with pytest.raises(SecretKeyWrong):
        pool.load("old")


def test_a_rotation_without_secrets_changes_nothing(pool: Pool) -> None:
    assert pool.store.secrets.rotate(pool.store).key_id is None
    assert not pool.key.exists()


def test_a_standby_says_which_key_it_lacks(pool: Pool, tmp_path: Path) -> None:
    other = new_store(
        connect(sqlite_url(pool.database), busy_seconds=1), keys=KeyFile(tmp_path / "other.key")
    )
    assert find_key_problem(other) == ""
    pool.save("one", "secret-1")
    assert find_key_problem(other).startswith("GP-2270")
    KeyFile(tmp_path / "other.key").read_or_make()
    assert str(pool.key_id()) in find_key_problem(other)
    shutil.copy(pool.key, tmp_path / "other.key")
    assert find_key_problem(other) == ""


def test_the_state_names_a_key_and_never_holds_one(pool: Pool) -> None:
    pool.save("one", "secret-1")
    with pool.store.read() as connection:
        row = connection.execute(sa.select(secret_state)).one()
    assert set(row._mapping) == {"id", "key_id", "changed_ns", "covered"}
    assert len(row.key_id) == 16
