"""The key by which a person's `ssh` logs in to jobs: made once, kept in the person's own files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gpupool.base.errors import CommandNotFound, WrongState
from gpupool.terminal.context import CommandContext


def ensure_key(context: CommandContext) -> Path:
    """Return the path of the private key; made where it is missing. Blocks for one `ssh-keygen`.

    Raises:
        CommandNotFound: OpenSSH's client is not installed.
        WrongState: the key could not be made.
    """
    login = context.settings.login_file
    # Beside the saved login, which is a secret of the same person.
    files = Path.home() / ".config" / "gpupool" if login is None else Path(login).parent
    directory = files / "ssh"
    key = directory / "id_ed25519"
    if key.exists() and key.with_suffix(".pub").exists():
        return key
    program = shutil.which("ssh-keygen")
    if program is None:
        raise CommandNotFound(
            "ssh-keygen is not installed on this machine", hint="apt-get install openssh-client"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key.unlink(missing_ok=True)
    words = [program, "-q", "-t", "ed25519", "-N", "", "-C", "gpupool", "-f", str(key)]
    made = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if made.returncode:
        raise WrongState(
            f"no key was made: {made.stderr.strip()[:200]}", hint=f"ls -la {directory}"
        )
    os.chmod(key, 0o600)
    return key


def read_public_key(key: Path) -> str:
    """Return the line of the public key."""
    return key.with_suffix(".pub").read_text().strip()


def list_options(key: Path) -> list[tuple[str, str]]:
    """List the settings of `ssh` for jobs (ssh_config(5)).

    The way to the job is authenticated by gpupool, end to end, and the host's key lasts for one
    connection: there is none to remember.
    """
    return [
        ("IdentityFile", str(key)),
        ("IdentitiesOnly", "yes"),
        ("StrictHostKeyChecking", "no"),
        ("UserKnownHostsFile", "/dev/null"),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("CheckHostIP", "no"),
        ("LogLevel", "ERROR"),
    ]
