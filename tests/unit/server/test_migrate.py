"""The database is created, upgraded, or refused with the reason; never begun anew over a damaged
one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gpupool.base.errors import StateNewer, StateUnusable, StoreBusy, StoreCorrupt
from gpupool.server import schema
from gpupool.server.migrate import is_current, known_revisions, prepare_database, run_revisions
from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.store.tables import pool


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    url = (
        sqlite_url(tmp_path / "m.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
    engine = connect(url, busy_seconds=0.3)
    yield engine
    engine.dispose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a pool that has run."""
    path = tmp_path / "gpupool.db"
    begin(path)
    return path


def begin(path: Path, pool_id: str = "p-test") -> None:
    engine = connect(sqlite_url(path), busy_seconds=0.3)
    try:
        prepare_database(engine, time.time_ns(), pool_id)
        open_store(engine, "here")
    finally:
        engine.dispose()


def dump(engine: sa.Engine) -> list[str]:
    """Every table, index and constraint as the database itself would write it."""
    if engine.dialect.name == "sqlite":
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    else:
        query = """
            SELECT 'index', indexname, tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'
            UNION ALL SELECT 'constraint', conname, conrelid::regclass::text, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace
            UNION ALL SELECT 'column', column_name, table_name,
              concat_ws(' ', data_type, is_nullable, column_default, character_maximum_length)
            FROM information_schema.columns WHERE table_schema = 'public'"""
    with engine.connect() as connection:
        return sorted(
            " ".join(shape(str(part)) for part in row) for row in connection.exec_driver_sql(query)
        )


def shape(text: str) -> str:
    """SQL without what means nothing: spaces, quotes, and the order in which constraints are
    written."""
    return " ".join(
        sorted(" ".join(line.split()).rstrip(", ") for line in text.replace('"', "").splitlines())
    )


def migrate(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        run_revisions(connection)


def test_the_migrations_make_exactly_the_tables_that_the_code_has(engine: sa.Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_object": _ours}
        )
        assert compare_metadata(context, schema.metadata) == []


def _ours(_object: object, name: str | None, kind: str, *_rest: object) -> bool:
    return (kind, name) != ("table", "alembic_version")


def test_a_new_database_has_exactly_what_the_migrations_make(engine: sa.Engine) -> None:
    """Also the checks, defaults and partial indexes that Alembic does not compare."""
    migrate(engine)
    migrated = dump(engine)
    with engine.begin() as connection:
        schema.metadata.drop_all(connection)
        connection.exec_driver_sql("DROP TABLE alembic_version")
    prepare_database(engine, time.time_ns(), "p-test")
    assert migrated == dump(engine)
    assert is_current(engine)
    assert any("ix_jobs_live" in line and "where" in line.lower() for line in migrated)
    assert any("alembic_version" in line for line in migrated)


def test_every_table_of_every_room_is_in_the_schema() -> None:
    packages = Path(schema.__file__).parents[1]
    found = {
        path.relative_to(packages).parts[0]
        for path in (*packages.glob("*/tables.py"), *packages.glob("*/*/tables.py"))
    }
    assert found == {room.__name__.split(".")[1] for room in schema.ROOMS} | {"store"}


def test_preparing_again_changes_nothing_and_keeps_the_pools_name(engine: sa.Engine) -> None:
    prepare_database(engine, 1, "p-first")
    prepare_database(engine, 2, "p-second")
    with engine.connect() as connection:
        row = connection.execute(sa.select(pool)).one()
    assert (row.pool_id, row.ledger_ns) == ("p-first", 1)


@pytest.mark.parametrize("new", [False, True])
def test_a_new_or_current_database_is_prepared_without_the_migration_library(
    path: Path, new: bool
) -> None:
    if new:
        path.unlink()
    script = (
        "import sys; from gpupool.server.migrate import prepare_database; from gpupool.store.database import connect;"
        f"prepare_database(connect('sqlite:///{path}'), 1, 'p'); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_database_of_a_newer_version_is_refused_with_both_revisions(engine: sa.Engine) -> None:
    prepare_database(engine, time.time_ns(), "p-test")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        StateNewer, match=f"revision 9999, this gpupool knows 0001 to {known_revisions()[-1]}"
    ):
        prepare_database(engine, time.time_ns(), "p-test")


def test_the_file_is_its_owners_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_of_zeros_is_damage(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StoreCorrupt, match="damaged"):
        begin(path)


def test_an_emptied_file_is_damage_and_no_new_pool(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="is empty"):
        begin(path)
    assert path.stat().st_size == 0


@pytest.mark.parametrize("part", [0.9, 0.5, 0.1])
def test_a_file_that_was_cut_off_is_damage(path: Path, part: float) -> None:
    os.truncate(path, int(path.stat().st_size * part) // 4096 * 4096 + 100)
    with pytest.raises(StoreCorrupt):
        begin(path)


def test_a_file_of_something_else_is_damage_and_stays_as_it_is(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(StoreCorrupt):
        begin(path)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_garbage_in_the_middle_is_damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(StoreCorrupt):
        begin(path)


def test_a_database_whose_revision_is_lost_is_damage(path: Path) -> None:
    engine = connect(sqlite_url(path))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
    engine.dispose()
    with pytest.raises(StoreCorrupt, match="does not say its revision"):
        begin(path)


def test_a_directory_that_is_not_there_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match="No such file"):
        begin(tmp_path / "nowhere" / "gpupool.db")


@pytest.mark.root
@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_directory_is_unusable(tmp_path: Path, existing: bool) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=False).returncode != 0:
        pytest.skip("this root may not mount")
    try:
        if existing:
            begin(place / "gpupool.db")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises(StateUnusable):
            begin(place / "gpupool.db")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_locked_database_is_busy_and_not_waited_for_without_end(path: Path) -> None:
    other = connect(sqlite_url(path))
    with other.connect() as holder:
        holder.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            begin(path)
    other.dispose()
    begin(path)


CREATE = """
import sys, time
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect
print("begin", flush=True)
prepare_database(connect(sys.argv[1]), time.time_ns(), "p-test")
print("end", flush=True)
"""


@pytest.mark.parametrize("kills", [8])
def test_a_server_killed_while_it_creates_the_database_can_be_started_again(
    tmp_path: Path, kills: int
) -> None:
    path = tmp_path / "gpupool.db"
    for n in range(kills):
        path.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", CREATE, sqlite_url(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        try:
            process.wait(
                0.005 * (n + 1)
            )  # of about 0.04 s; each a little later than the one before
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        begin(path)
        assert sorted(one.name for one in tmp_path.iterdir() if ".new" in one.name) == []
