"""The unit of systemd that runs a pool as a service of the machine. Pure: text from arguments.

Why the sandbox of a pool with cards is small: docs/how-to/system-service.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

NAME: Final = "gpupool.service"
#: The first line of every unit that `gpupool up --system` writes; others are never replaced.
MARK: Final = "# Written by gpupool up --system, which replaces it. Settings of your own: systemctl edit gpupool"
#: Seconds; the first start of a new version upgrades the database.
START_SECONDS: Final = 600
#: Seconds; `gpupool down` gives a server 30 s to stop.
STOP_SECONDS: Final = 45
#: What needs no quotes in a command line of systemd; `%` and `$` are doubled before.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=,@%$+-]+")

#: Holds for the server, the agent and every job, since jobs are started by the agent.
_POOL_SANDBOX: Final = """
# Jobs, their containers and their sudo inherit what stands here. No setting that makes a mount namespace
# (ProtectSystem=, PrivateTmp=, ...): the jobs of before a restart and the new server would see different mounts.
# No NoNewPrivileges=: containers of accounts need newuidmap.
CapabilityBoundingSet=~CAP_SYS_TIME CAP_SYS_BOOT CAP_SYS_PACCT CAP_SYS_TTY_CONFIG
CapabilityBoundingSet=~CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_CONTROL
SystemCallFilter=~@clock @reboot @swap @obsolete
SystemCallErrorNumber=EPERM
""".strip()

#: A standby has no cards and starts no process.
_STANDBY_SANDBOX: Final = """
# A standby has no cards and no jobs, so that it needs its state directory and the network alone.
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={state_dir}
# The socket of a system pool is in /run/gpupool.
RuntimeDirectory=gpupool
RuntimeDirectoryPreserve=yes
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
""".strip()


def write_unit(program: str, state_dir: str, words: Sequence[str], *, is_standby: bool) -> str:
    """Write the unit of a pool.

    Args:
        program: Full path of the command `gpupool`.
        state_dir: Full path of the pool's state directory.
        words: Options of `gpupool up`.
        is_standby: Whether the server has no cards and no jobs.
    """
    command = [program, "--state-dir", state_dir, "up", *words]
    sandbox = _POOL_SANDBOX
    if is_standby:
        sandbox = _STANDBY_SANDBOX.format(state_dir=quote_path(state_dir))
    lines = [
        MARK,
        "[Unit]",
        "Description=gpupool, one pool for the GPUs of this machine",
        "Wants=network-online.target",
        "After=network-online.target nvidia-persistenced.service postgresql.service",
        f"RequiresMountsFor={quote_path(state_dir)}",
        "# A server that fails at once is not started for ever.",
        "StartLimitIntervalSec=120",
        "StartLimitBurst=10",
        "",
        "[Service]",
        "# Started means: the pool answers, and has taken its jobs back.",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join(quote_word(word) for word in command)}",
        f"TimeoutStartSec={START_SECONDS}",
        f"TimeoutStopSec={STOP_SECONDS}",
        "# The supervisors of jobs are in this cgroup: they outlive the server, an out-of-memory kill",
        "# among them does not stop it, and they are not counted against it.",
        "KillMode=process",
        "OOMPolicy=continue",
        "TasksMax=infinity",
        "Restart=on-failure",
        "RestartSec=2",
        "StandardOutput=journal",
        "StandardError=journal",
        "SyslogIdentifier=gpupool",
        "",
        sandbox,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def quote_word(word: str) -> str:
    """Quote a word for a command line of a unit (systemd.service(5), systemd.syntax(7))."""
    # Only command lines have variables.
    return quote_path(word.replace("$", "$$"))


def quote_path(word: str) -> str:
    """Quote a word for a list of paths in a unit."""
    # systemd replaces specifiers in any setting.
    word = word.replace("%", "%%")
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def is_ours(text: str) -> bool:
    """Return whether `gpupool up --system` wrote a unit."""
    return text.startswith(MARK.partition(",")[0])
