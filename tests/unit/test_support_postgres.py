"""The tests' own PostgreSQL: found in both places, private, empty per test, gone when its owner is
gone."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, make_url, text

from tests.support.postgres import (
    DIRECTORY_PREFIX,
    NoPostgresError,
    ServerEndedError,
    connection_string,
    find_bindir,
    fresh_database,
    installed_bindirs,
    running_postgres,
    server_account,
    session_directory,
    socket_directory,
    sweep_abandoned,
    wheel_bindirs,
)

pytest_plugins = ["tests.support.postgres_fixtures"]

SOURCES: dict[str, Callable[[], Iterator[Path]]] = {
    "machine": installed_bindirs,
    "wheel": wheel_bindirs,
}


@pytest.fixture
def base_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gp-test-") as name:
        os.chmod(name, 0o711)
        yield Path(name)


def bindir_from(source: str) -> Path:
    try:
        return find_bindir(SOURCES[source]())
    except NoPostgresError:
        pytest.skip(f"this machine has no PostgreSQL from the {source}")


def ask(url: str, question: str) -> str:
    with psycopg.connect(connection_string(url)) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_a_server_from_either_source_answers_and_runs_from_there(
    source: str, base_dir: Path
) -> None:
    bindir = bindir_from(source)
    with running_postgres(base_dir, bindir) as url:
        version = subprocess.check_output([bindir / "postgres", "--version"], text=True)
        assert ask(url, "SHOW server_version") in version
        program = Path(f"/proc/{postmaster(base_dir)}/exe").resolve()
    # The last parts only: it may be a copy, where the server's account cannot enter this checkout.
    assert program.parts[-3:] == (bindir / "postgres").resolve().parts[-3:]


def test_programs_that_the_server_account_cannot_reach_are_copied(
    base_dir: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has files its own servers cannot read")
    closed = tmp_path / "closed"
    package = bindir_from("wheel").parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, closed / part.name, symlinks=True)
    closed.chmod(0o700)
    with running_postgres(base_dir, next(closed.glob("*/pginstall*/bin"))) as url:
        assert ask(url, "SELECT 1") == "1"
        assert Path(f"/proc/{postmaster(base_dir)}/exe").resolve().is_relative_to(base_dir)


def test_the_server_listens_on_its_socket_alone_and_never_runs_as_root(
    postgres_server: str,
) -> None:
    assert ask(postgres_server, "SHOW listen_addresses") == ""
    socket_dir = socket_directory(postgres_server)
    assert socket_dir.stat().st_mode & 0o077 == 0
    assert socket_dir.stat().st_uid == server_account().uid != 0


def test_every_test_gets_an_empty_database_of_its_own(postgres_server: str) -> None:
    with fresh_database(postgres_server) as one, fresh_database(postgres_server) as other:
        with psycopg.connect(connection_string(one)) as connection:
            connection.execute("CREATE TABLE cards (id integer)")
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert (ask(one, tables), ask(other, tables)) == ("1", "0")


def test_a_database_is_dropped_with_its_connections(postgres_server: str) -> None:
    with fresh_database(postgres_server) as url:
        left_open = psycopg.connect(connection_string(url))
        name = make_url(url).database
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    assert ask(postgres_server, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == "0"


def test_the_fixture_url_works_with_sqlalchemy(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT current_database()")) == engine.url.database
    engine.dispose()


def test_the_server_is_gone_when_the_block_ends(base_dir: Path) -> None:
    with running_postgres(base_dir):
        server = os.pidfd_open(postmaster(base_dir))
    assert has_ended(server, seconds=0)
    assert not list(base_dir.glob("pg/.s.PGSQL*"))


def test_a_server_that_somebody_ended_is_told_with_its_log(base_dir: Path) -> None:
    with pytest.raises(ServerEndedError, match=r"(?s)ended with 0 .*database system is shut down"):
        _run_one_that_is_ended(base_dir)


def _run_one_that_is_ended(base_dir: Path) -> None:
    with running_postgres(base_dir):
        server = os.pidfd_open(postmaster(base_dir))
        signal.pidfd_send_signal(server, signal.SIGINT)
        assert has_ended(server, seconds=20)


def test_the_server_ends_when_the_test_process_is_killed(base_dir: Path) -> None:
    program = (
        "import sys, pathlib, signal; from tests.support.postgres import running_postgres\n"
        "with running_postgres(pathlib.Path(sys.argv[1])): print('up', flush=True); signal.pause()"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(base_dir)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    server = os.pidfd_open(postmaster(base_dir))
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert has_ended(server, seconds=20)


def test_what_a_killed_session_left_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    abandoned = tmp_path / f"{DIRECTORY_PREFIX}abandoned"
    (abandoned / "pg").mkdir(parents=True)
    with session_directory(tmp_path) as living:
        (living / "pg").mkdir()
        sweep_abandoned(tmp_path)
        assert list(tmp_path.iterdir()) == [living]
    assert not list(tmp_path.iterdir())


def test_no_programs_anywhere_says_what_to_type() -> None:
    with pytest.raises(NoPostgresError, match="apt-get install postgresql"):
        find_bindir(iter([Path("/nonexistent")]))


def test_a_path_too_long_for_a_socket_is_refused_with_its_length(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with pytest.raises(NoPostgresError, match="the limit is 107"), running_postgres(deep):
        pass


def test_a_directory_the_server_account_cannot_enter_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a directory its own server cannot enter")
    with tempfile.TemporaryDirectory(prefix="gp-closed-") as closed:
        with pytest.raises(NoPostgresError, match="cannot reach"), running_postgres(Path(closed)):
            pass
        assert not list(Path(closed).glob("pg/data"))


def postmaster(base_dir: Path) -> int:
    return int((base_dir / "pg/data/postmaster.pid").read_text().splitlines()[0])


def has_ended(pidfd: int, seconds: float) -> bool:
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)
