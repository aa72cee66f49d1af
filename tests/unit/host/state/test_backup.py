"""Backups and restored pools have event logs of their own."""

from __future__ import annotations

import base64
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BackupUnusable, SecretKeyMissing, StateUnusable, StoreCorrupt
from gpupool.base.ids import new_id
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.backup import copy_rows, restore_backup, save_backup
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.server.migrate import prepare_database
from gpupool.server.schema import metadata
from gpupool.signon.tables import providers
from gpupool.store.database import connect, new_store, sqlite_url
from gpupool.store.secrets.key_file import KeyFile
from gpupool.tenancy.tables import cohorts


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """The state directory of a pool that does not run."""
    root = tmp_path / "original"
    state = StateDir(root)
    state.open()
    pool_id = new_id("p")
    engine = connect(sqlite_url(state.paths.database))
    prepare_database(engine, 1, pool_id)
    engine.dispose()
    state.write_marker(PoolMarker(pool_id=pool_id, begun=True))
    state.close()
    return root


def epoch_of(database: Path) -> str:
    connection = sqlite3.connect(database)
    try:
        return str(connection.execute("SELECT event_epoch FROM pool").fetchone()[0])
    finally:
        connection.close()


def test_a_backup_and_each_restored_pool_have_an_epoch_of_their_own(
    tmp_path: Path, original: Path
) -> None:
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == 0
    databases = [original / "gpupool.db", backup]
    for name in ("restored", "restored-again"):
        assert restore_backup(HostOptions(state_dir=tmp_path / name, file=backup)) == 0
        databases.append(tmp_path / name / "gpupool.db")
    epochs = [epoch_of(database) for database in databases]
    assert len(set(epochs)) == len(epochs) == 4
    assert "" not in epochs


def test_a_copied_state_directory_gets_a_new_epoch_when_it_is_restored(
    tmp_path: Path, original: Path
) -> None:
    before = epoch_of(original / "gpupool.db")
    assert restore_backup(HostOptions(state_dir=tmp_path / "moved", file=original)) == 0
    assert epoch_of(tmp_path / "moved" / "gpupool.db") != before
    assert epoch_of(original / "gpupool.db") == before


def test_a_backup_of_an_earlier_version_is_restored_without_an_epoch(
    tmp_path: Path, original: Path
) -> None:
    connection = sqlite3.connect(original / "gpupool.db")
    connection.execute("ALTER TABLE pool DROP COLUMN event_epoch")
    connection.commit()
    connection.close()
    assert restore_backup(HostOptions(state_dir=tmp_path / "restored", file=original)) == 0


#: What a restored pool forgets.
OF_BROWSERS = {"sessions", "signon_attempts"}


def fill_every_table(database: Path) -> None:
    """Put a row into each table that has none; whatever its columns allow."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for table in metadata.sorted_tables:
        if connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0]:
            continue
        row = {column.name: make_value(column) for column in table.columns}
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" for _ in row)
        connection.execute(
            f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', tuple(row.values())
        )
    connection.commit()
    connection.close()


def make_value(column: sa.Column[Any]) -> object:
    """A value as SQLite stores it for the type of the column."""
    if isinstance(column.type, sa.Integer | sa.Boolean):
        return 1
    if isinstance(column.type, sa.Float | sa.Numeric):
        return 1.0
    if isinstance(column.type, sa.JSON):
        return "{}"
    if isinstance(column.type, sa.LargeBinary):
        return b"content"
    return "{}" if "JSON" in type(column.type).__name__.upper() else "1"


def read_tables(database: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(database)
    try:
        found = {}
        for name in sorted(metadata.tables):
            found[name] = connection.execute(f'SELECT * FROM "{name}"').fetchall()
        return found
    finally:
        connection.close()


@pytest.fixture
def full(original: Path) -> Iterator[Path]:
    """The pool of `original`, with a row in every table."""
    fill_every_table(original / "gpupool.db")
    yield original
    assert all(read_tables(original / "gpupool.db").values())


def test_a_restored_pool_has_every_table_but_the_logins_of_browsers(
    tmp_path: Path, full: Path
) -> None:
    assert save_backup(HostOptions(state_dir=full, file=tmp_path / "backup")) == 0
    assert restore_backup(HostOptions(state_dir=tmp_path / "new", file=tmp_path / "backup")) == 0
    before = read_tables(full / "gpupool.db")
    after = read_tables(tmp_path / "new" / "gpupool.db")
    assert len(before) > 60
    # `pool` has the id of the event log, which is another one.
    for name in before.keys() - OF_BROWSERS - {"pool", "signon_logins"}:
        assert after[name] == before[name], name
    assert len(after["pool"]) == 1
    for name in (*OF_BROWSERS, "signon_logins"):
        assert after[name] == [], name


def test_a_login_by_token_stays_and_one_of_a_browser_ends(tmp_path: Path, full: Path) -> None:
    connection = sqlite3.connect(full / "gpupool.db")
    connection.execute("UPDATE sessions SET id = 'of-browser'")
    connection.execute("UPDATE signon_logins SET login_id = 'of-token'")
    connection.commit()
    connection.close()
    assert restore_backup(HostOptions(state_dir=tmp_path / "new", file=full)) == 0
    after = read_tables(tmp_path / "new" / "gpupool.db")
    assert [row[0] for row in after["signon_logins"]] == ["of-token"]
    assert after["sessions"] == []


def test_rows_of_every_table_move_to_another_database(tmp_path: Path, full: Path) -> None:
    target = tmp_path / "other.db"
    engine = connect(sqlite_url(target))

    @sa.event.listens_for(sa.engine.Engine, "connect")
    def ignore_checks(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA ignore_check_constraints = ON")

    try:
        copy_rows(sqlite_url(full / "gpupool.db"), sqlite_url(target), "p-1")
    finally:
        sa.event.remove(sa.engine.Engine, "connect", ignore_checks)
        engine.dispose()
    before = read_tables(full / "gpupool.db")
    assert {name: len(rows) for name, rows in read_tables(target).items()} == {
        name: len(rows) for name, rows in before.items()
    }


@pytest.fixture
def with_secret(original: Path) -> Path:
    """The pool of `original`, with the secret of a directory."""
    store = new_store(
        connect(sqlite_url(original / "gpupool.db")),
        keys=KeyFile(original / "secrets" / "secret.key"),
    )
    store.take("here")
    with store.write() as write:
        secret = store.secrets.encrypt(write, providers.c.secret, "staff", "bind-password")
        values = {"name": "staff", "kind": "ldap", "settings": {}, "created_ns": 1}
        write.insert(providers, secret=secret, **values)
    store.close()
    return original


def read_secret(root: Path) -> str:
    store = new_store(
        connect(sqlite_url(root / "gpupool.db")), keys=KeyFile(root / "secrets" / "secret.key")
    )
    try:
        with store.read() as connection:
            text = connection.execute(sa.select(providers.c.secret)).scalar_one()
        return store.secrets.decrypt(providers.c.secret, "staff", text)
    finally:
        store.close()


def test_a_backup_has_no_secret_in_clear_and_says_that_its_key_is_elsewhere(
    tmp_path: Path, with_secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "backup"
    assert save_backup(HostOptions(state_dir=with_secret, file=backup)) == 0
    assert b"bind-password" not in backup.read_bytes()
    assert "not included" in capsys.readouterr().out
    new = tmp_path / "new"
    assert restore_backup(HostOptions(state_dir=new, file=backup)) == 0
    assert f"put the old pool's key file at {new}/secrets/secret.key" in capsys.readouterr().out
    with pytest.raises(SecretKeyMissing):
        read_secret(new)
    shutil.copy(with_secret / "secrets" / "secret.key", new / "secrets" / "secret.key")
    assert read_secret(new) == "bind-password"


def test_a_backup_with_its_key_and_a_copied_directory_restore_secrets(
    tmp_path: Path, with_secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "backup"
    options = HostOptions(state_dir=with_secret, file=backup, with_key=True)
    assert save_backup(options) == 0
    assert "is included" in capsys.readouterr().out
    for source in (backup, with_secret):
        new = tmp_path / f"from-{source.name}"
        assert restore_backup(HostOptions(state_dir=new, file=source)) == 0
        assert "key file" not in capsys.readouterr().out
        assert read_secret(new) == "bind-password"
        assert (new / "secrets" / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_backup_with_a_key_that_is_missing_is_not_made(
    tmp_path: Path, with_secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (with_secret / "secrets" / "secret.key").unlink()
    options = HostOptions(state_dir=with_secret, file=tmp_path / "backup", with_key=True)
    assert save_backup(options) != 0
    assert "GP-2270" in capsys.readouterr().err
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_a_pool_without_its_database_is_refused_and_makes_none(
    tmp_path: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, an empty file was made in its place, and copied as a backup."""
    (original / "gpupool.db").unlink()
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == StoreCorrupt.exit_code
    assert restore_backup(HostOptions(state_dir=tmp_path / "new", file=original)) != 0
    assert not backup.exists()
    assert not (original / "gpupool.db").exists()
    assert capsys.readouterr().err.count(f"{original}/gpupool.db is missing") == 2


def test_a_backup_of_an_empty_database_is_refused(tmp_path: Path, original: Path) -> None:
    (original / "gpupool.db").write_bytes(b"")
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == StoreCorrupt.exit_code
    assert not backup.exists()


def test_a_restore_that_failed_can_be_repeated(
    tmp_path: Path, original: Path, postgres_pool_url: str
) -> None:
    """Before, what the first one left made the directory one that is not empty."""
    target = tmp_path / "new"
    engine = connect(postgres_pool_url)
    prepare_database(engine, 1, "p-other")
    with engine.begin() as connection:
        connection.execute(metadata.tables["pool"].update().values(event_seq=7))
    engine.dispose()
    options = HostOptions(state_dir=target, file=original, store=postgres_pool_url)
    assert restore_backup(options) == BackupUnusable.exit_code
    assert restore_backup(HostOptions(state_dir=target, file=original)) == 0


def test_a_tree_whose_child_is_older_than_its_parent_moves_to_another_database(
    tmp_path: Path, original: Path
) -> None:
    engine = connect(sqlite_url(original / "gpupool.db"))
    with engine.begin() as connection:
        rows = [{"name": name, "created_ns": 1} for name in ("child", "parent")]
        connection.execute(cohorts.insert(), rows)
        connection.execute(cohorts.update().where(cohorts.c.id == 1).values(parent_id=2))
    engine.dispose()
    target = sqlite_url(tmp_path / "other.db")
    copy_rows(sqlite_url(original / "gpupool.db"), target, "p-1")
    engine = connect(target)
    with engine.connect() as connection:
        found = connection.execute(sa.select(cohorts.c.name, cohorts.c.parent_id)).all()
    engine.dispose()
    assert sorted(map(tuple, found)) == [("child", 2), ("parent", None)]


@pytest.mark.parametrize("name", ["mon#day", "50%25", "week?9"])
def test_a_backup_is_restored_whatever_its_file_is_called(
    tmp_path: Path, original: Path, name: str
) -> None:
    assert save_backup(HostOptions(state_dir=original, file=tmp_path / name)) == 0
    assert restore_backup(HostOptions(state_dir=tmp_path / "new", file=tmp_path / name)) == 0


def make_older(engine: sa.Engine) -> None:
    """Undo the newest revision."""
    with engine.begin() as connection:
        for table, column in (("networks", "gateway_number"), ("floating_ips", "inner_number")):
            connection.exec_driver_sql(f"DROP INDEX ix_{table}_{column}")
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        for column in ("link", "agreed"):
            connection.exec_driver_sql(f"ALTER TABLE network_peerings DROP COLUMN {column}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0072'")
    engine.dispose()


def test_a_backup_of_an_earlier_version_is_restored_to_postgresql(
    tmp_path: Path, original: Path, postgres_pool_url: str
) -> None:
    make_older(connect(sqlite_url(original / "gpupool.db")))
    options = HostOptions(state_dir=tmp_path / "new", file=original, store=postgres_pool_url)
    assert restore_backup(options) == 0


def test_a_backup_of_postgresql_that_was_not_upgraded_says_what_to_do(
    tmp_path: Path, original: Path, postgres_pool_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    state = StateDir(original)
    state.write_marker(PoolMarker(pool_id="p-1", begun=True, store=postgres_pool_url))
    make_older(connect(postgres_pool_url))
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == StateUnusable.exit_code
    assert "has revision 0072" in capsys.readouterr().err
    assert not backup.exists()


def test_the_key_of_a_backup_is_not_in_the_database_that_is_made_of_it(
    tmp_path: Path, with_secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a later backup had it, though it said that the key is not included."""
    connect_as_here = sqlite3.connect

    def connect_as_elsewhere(*arguments: Any, **options: Any) -> sqlite3.Connection:
        """Debian's library overwrites what is deleted, others do only where they are told to."""
        connection = connect_as_here(*arguments, **options)
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_as_elsewhere)
    (material,) = KeyFile(with_secret / "secrets" / "secret.key").read()
    text = base64.b64encode(material.material)
    options = HostOptions(state_dir=with_secret, file=tmp_path / "full", with_key=True)
    assert save_backup(options) == 0
    assert text in (tmp_path / "full").read_bytes()
    assert restore_backup(HostOptions(state_dir=tmp_path / "new", file=tmp_path / "full")) == 0
    assert save_backup(HostOptions(state_dir=tmp_path / "new", file=tmp_path / "later")) == 0
    assert text not in (tmp_path / "later").read_bytes()
    assert text not in (tmp_path / "new" / "gpupool.db").read_bytes()
