"""An OVN of others: real databases and ovn-northd with rows of their own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpupool.base.clock import wall_ns
from gpupool.network.machines.certificates import issue_certificate, make_authority
from tests.support.claims import claim_port

#: Rows of the other user, as ovn-nbctl(8) makes them. Its network has an address of the pool's too.
FOREIGN_ROWS = (
    ("ls-add", "theirs"),
    ("lr-add", "their-router"),
    ("lrp-add", "their-router", "their-port", "02:00:00:00:00:01", "10.0.0.1/24"),
    ("lsp-add", "theirs", "their-server"),
    ("lsp-set-addresses", "their-server", "02:00:00:00:00:02 10.0.0.2"),
    ("pg-add", "their_group", "their-server"),
    ("acl-add", "their_group", "to-lport", "1000", "ip4", "allow"),
    ("set", "NB_Global", ".", "options:northd_probe_interval=7000"),
)
_SCHEMAS = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}


class ExternalOvn:
    """Databases that the pool does not own."""

    def __init__(self, place: Path, *, has_tls: bool) -> None:
        self.place = place
        self.kind = "ssl" if has_tls else "tcp"
        self.ports = (claim_port(), claim_port())
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._options: list[str] = []
        if has_tls:
            self._write_certificates()

    @property
    def northbound(self) -> str:
        return f"{self.kind}:127.0.0.1:{self.ports[0]}"

    def start(self) -> None:
        """Start the databases, whose files stay between two starts, and ovn-northd."""
        for number, name in enumerate(_SCHEMAS):
            file = self.place / f"{name}.db"
            if not file.exists():
                schema = f"/usr/share/ovn/ovn-{name}.ovsschema"
                subprocess.run(["ovsdb-tool", "create", file, schema], check=True)
            remote = f"p{self.kind}:{self.ports[number]}:127.0.0.1"
            server = [
                "ovsdb-server",
                file,
                f"--remote=punix:{self.place}/{name}.sock",
                f"--remote={remote}",
            ]
            self._start(name, [*server, *self._options])
        databases = [f"--ovn{name}-db=unix:{self.place}/{name}.sock" for name in _SCHEMAS]
        self._start("northd", ["ovn-northd", *databases])

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()

    def command(self, *words: str) -> str:
        """Run ovn-nbctl as the other user."""
        done = subprocess.run(
            ["ovn-nbctl", f"--db=unix:{self.place}/nb.sock", "--timeout=10", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def list_chassis(self) -> list[str]:
        return sorted(str(row["name"]) for row in self._read("sb", "Chassis", "name"))

    def read_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Read every northbound row by table, without what northd itself counts."""
        found: dict[str, list[dict[str, Any]]] = {}
        for table in self._list_tables():
            # A version is another one with each start of the server; states are northd's own.
            skipped = {"_version", "up", "status"}
            if table == "NB_Global":
                # northd counts its passes here, and writes defaults beside what the user set.
                skipped |= {"options", "nb_cfg", "sb_cfg", "hv_cfg", "ipsec"}
                skipped |= {f"{name}_cfg_timestamp" for name in ("nb", "sb", "hv")}
            rows = [
                {key: value for key, value in row.items() if key not in skipped}
                for row in self._read("nb", table)
            ]
            if rows:
                found[table] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        return found

    def read_option(self, name: str) -> str:
        return self.command("get", "NB_Global", ".", f"options:{name}").strip().strip('"')

    def _start(self, name: str, words: list[Any]) -> None:
        # Their control sockets and pid files are the other user's, not the pool's.
        environ = {"PATH": os.environ["PATH"], "OVN_RUNDIR": str(self.place)}
        environ |= {"OVS_RUNDIR": str(self.place), "OVS_LOGDIR": str(self.place)}
        control = f"--unixctl={self.place}/{name}.ctl"
        log = (self.place / f"{name}.log").open("ab")
        self._processes[name] = subprocess.Popen([*words, control], env=environ, stderr=log)
        log.close()
        _until(lambda: (self.place / f"{name}.ctl").exists(), f"the start of {name}")

    def _write_certificates(self) -> None:
        now_ns = wall_ns()
        authority = make_authority("others", now_ns)
        files = {"trusted.pem": authority.certificate}
        for name in ("server", "client"):
            made = issue_certificate(authority, name, now_ns)
            files |= {f"{name}.pem": made.certificate, f"{name}-key.pem": made.private_key}
        for name, text in files.items():
            (self.place / name).write_text(text)
        self._options = [
            f"--private-key={self.place}/server-key.pem",
            f"--certificate={self.place}/server.pem",
            f"--ca-cert={self.place}/trusted.pem",
        ]

    def _list_tables(self) -> list[str]:
        schema = json.loads(Path("/usr/share/ovn/ovn-nb.ovsschema").read_text())
        return sorted(schema["tables"])

    def _read(self, name: str, table: str, *columns: str) -> list[dict[str, Any]]:
        select = {"op": "select", "table": table, "where": []}
        if columns:
            select["columns"] = list(columns)
        done = subprocess.run(
            [
                "ovsdb-client",
                "transact",
                f"unix:{self.place}/{name}.sock",
                json.dumps([_SCHEMAS[name], select]),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        rows: list[dict[str, Any]] = json.loads(done.stdout)[0]["rows"]
        return rows


@contextmanager
def external_ovn(place: Path, *, has_tls: bool) -> Iterator[ExternalOvn]:
    """An OVN of others with rows of theirs; ended at the end."""
    made = ExternalOvn(place, has_tls=has_tls)
    try:
        made.start()
        for words in FOREIGN_ROWS:
            made.command(*words)
        yield made
    finally:
        made.kill()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
