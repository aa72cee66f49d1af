"""A real OVSDB server for tests, without privileges: the databases of OVN, and nothing behind them."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.supervised import until

NORTHBOUND_SCHEMA = Path("/usr/share/ovn/ovn-nb.ovsschema")
SWITCH_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


def is_listening(path: str | Path) -> bool:
    """Whether a server takes connections at a Unix socket, whose path is there before that."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def find_missing_part() -> str:
    """Why no server can run here; empty when it can."""
    if shutil.which("ovsdb-server") is None or not NORTHBOUND_SCHEMA.exists():
        return "needs the packages ovn-common and openvswitch-switch"
    return ""


class DatabaseServer:
    """A database in a directory of its own, which outlives its server."""

    def __init__(
        self, directory: Path, options: Sequence[str] = (), schema: Path = NORTHBOUND_SCHEMA
    ) -> None:
        self._directory = directory
        self._options = options
        self._file = directory / "nb.db"
        self.remote = f"unix:{directory}/nb.sock"
        self._process: subprocess.Popen[bytes] | None = None
        command = ["ovsdb-tool", "create", str(self._file), str(schema)]
        subprocess.run(command, check=True)
        self.start()

    def start(self) -> None:
        path = self._directory / "nb.sock"
        path.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                "ovsdb-server",
                str(self._file),
                f"--remote=p{self.remote}",
                f"--unixctl={self._directory}/ctl",
                "-vconsole:off",
                *self._options,
            ]
        )
        until(lambda: is_listening(path))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def change_file(self, database: str, *operations: object) -> None:
        """Change the database while no server has it (RFC 7047 section 4.1.3)."""
        transaction = json.dumps([database, *operations])
        command = ["ovsdb-tool", "transact", str(self._file), transaction]
        subprocess.run(command, check=True, capture_output=True)

    def command(self, *words: str) -> str:
        """What `ovn-nbctl` prints: another client of the northbound database."""
        return self._run("ovn-nbctl", *words)

    def command_switch(self, *words: str) -> str:
        """What `ovs-vsctl` prints: another client of the database of a switch."""
        return self._run("ovs-vsctl", "--no-wait", *words)

    def _run(self, program: str, *words: str) -> str:
        command = [program, f"--db={self.remote}", "--timeout=10", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()


@contextlib.contextmanager
def northbound_server(*options: str) -> Iterator[DatabaseServer]:
    """Run a server, with further options of ovsdb-server(1)."""
    # A socket's path has 107 bytes at most, which a directory of pytest may exceed.
    with tempfile.TemporaryDirectory(prefix="gpo-") as directory:
        server = DatabaseServer(Path(directory), options)
        try:
            yield server
        finally:
            server.kill()


@contextlib.contextmanager
def switch_server() -> Iterator[DatabaseServer]:
    """Run a server with the database of a switch."""
    with tempfile.TemporaryDirectory(prefix="gpo-") as directory:
        server = DatabaseServer(Path(directory), schema=SWITCH_SCHEMA)
        try:
            yield server
        finally:
            server.kill()
