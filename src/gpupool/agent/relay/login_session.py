"""Runs `sshd -i` in a job for one connection, as the job's user and with keys of this session.

The way there was authenticated by the server, end to end, so the keys need no trust of their own:
the client's public key comes with the request, the host's key is made here, and both are removed at
the end. No port is opened and nothing of the machine's own sshd is read. Needs OpenSSH's server.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpupool.agent.relay.child import start_child
from gpupool.agent.relay.descendants import end_descendants
from gpupool.agent.relay.entering import EntryFailure
from gpupool.base.files.trees import remove_tree

#: Debian, Red Hat and SUSE have it there; the PATH of users mostly lacks it.
_DAEMONS: Final = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")
#: The directory that sshd wants to see where it runs as root (its `--with-privsep-path`).
_PRIVILEGE_DIRECTORY: Final = Path("/run/sshd")
#: Variables that sshd sets itself, or that belong to the job's command alone.
_OWN_VARIABLES: Final = frozenset({"HOME", "LOGNAME", "MAIL", "PWD", "SHELL", "TERM", "USER", "_"})


def find_daemon() -> str:
    """Return the path of sshd. Raises EntryFailure where it is not installed."""
    for path in (*_DAEMONS, shutil.which("sshd")):
        if path and os.access(path, os.X_OK):
            return path
    raise EntryFailure(
        "OpenSSH's server is not installed on its machine: apt-get install openssh-server; "
        "gpupool exec needs none"
    )


class LoginSession:
    """One connection of SSH: `run` blocks until it is over."""

    def __init__(
        self, request: Mapping[str, Any], stream: socket.socket, command: int, daemon: str
    ) -> None:
        """Make keys and settings. Raises EntryFailure."""
        self._stream = stream
        self._command = command
        self._has_cgroup = bool(request["cgroups"])
        self._daemon = daemon
        try:
            self._directory = Path(tempfile.mkdtemp(prefix="ssh-", dir=request["run_directory"]))
            self._write_files(request)
        except (OSError, subprocess.SubprocessError) as error:
            raise EntryFailure(f"keys of the session could not be made: {error}") from error

    def _write_files(self, request: Mapping[str, Any]) -> None:
        key = self._directory / "host_key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpupool", "-f", str(key)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        allowed = self._directory / "authorized_keys"
        allowed.write_text(f"{request['public_key']}\n")
        settings = make_settings(key, allowed, request["environment"])
        (self._directory / "sshd_config").write_text(settings)
        if os.getuid() == 0:
            _PRIVILEGE_DIRECTORY.mkdir(mode=0o755, exist_ok=True)

    def run(self) -> None:
        """Serve the connection; returns when it, or the job, has ended."""
        try:
            self._serve()
        finally:
            if not self._has_cgroup:
                end_descendants()
            # The job's programs can write there; what is left goes with the run directory.
            with contextlib.suppress(OSError):
                remove_tree(self._directory)

    def _serve(self) -> None:
        sink = os.open(os.devnull, os.O_RDWR)
        number = self._stream.fileno()
        words = [self._daemon, "-i", "-f", str(self._directory / "sshd_config")]
        child = start_child(
            words, "/", {"PATH": os.defpath}, (number, number, sink), has_terminal=False
        )
        # sshd's copy is the only one left: its end ends the stream.
        self._stream.close()
        os.close(sink)
        end = os.pidfd_open(child)
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.register(self._command, select.POLLIN)
        poll.poll()


def make_settings(key: Path, allowed: Path, environment: Mapping[str, str]) -> str:
    """Make the configuration of one sshd (sshd_config(5))."""
    lines = [
        f'HostKey "{key}"',
        f'AuthorizedKeysFile "{allowed}"',
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        # The directory of the keys is the user's own, below directories of the pool.
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        "PrintMotd no",
        "PrintLastLog no",
        "AcceptEnv LANG LC_*",
        "AllowTcpForwarding yes",
        "Subsystem sftp internal-sftp",
    ]
    assignments = [
        f'"{name}={value}"'
        for name, value in environment.items()
        if name not in _OWN_VARIABLES and _can_quote(value)
    ]
    if assignments:
        # The first line of the kind counts, so all are in one.
        lines.append(f"SetEnv {' '.join(assignments)}")
    return "\n".join(lines) + "\n"


def _can_quote(value: str) -> bool:
    """Whether a value can be written between quotes: the format has no other escapes."""
    return value.isprintable() and '"' not in value and "\\" not in value
