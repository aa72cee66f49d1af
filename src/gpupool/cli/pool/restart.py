"""`gpupool restart`: stop the server and start it again; jobs keep running."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from typing import Any

from gpupool import __version__
from gpupool.base.anew import RESTART_SIGNAL
from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import PoolLost, ServiceUnavailable, StandbyServer
from gpupool.cli.pool.down import check_may_stop, stop_server
from gpupool.cli.pool.host_process import HostStart, is_kept, open_log
from gpupool.client.transport import Api
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser

#: Seconds; a start takes one or two.
AGAIN_SECONDS = 60
#: Milliseconds between two looks; each also ends at once when the server ends.
_LOOK_MS = 50


def register(parser: CommandParser) -> None:
    parser.about = """
    The server restarts with the same options in the installed version, and takes its jobs back. The command returns
    when it answers. A server in the foreground (in a terminal, a systemd unit, a container) restarts with the same
    pid.
    """
    parser.examples = ["gpupool restart"]


def run(_options: argparse.Namespace, context: CommandContext) -> int:
    state_dir = context.state_dir
    with Api(ClientSettings(state_dir=state_dir)) as api:
        pool = api.request("GET", "pool")
    pid = int(pool["pid"])
    check_may_stop(pid)
    # In the foreground it keeps its pid and its parent: a systemd unit does not see it end.
    if is_kept(pid):
        version = _begin_anew(state_dir, pool)
        if version != __version__:
            print_notice(
                f"it is still version {version}, of another installation than this one "
                f"({__version__})"
            )
    else:
        stop_server(pool)
        with open_log(state_dir) as log:
            pid = HostStart(state_dir, [], log=log).await_ready()["pid"]
    sys.stdout.write(f"the server runs again (pid {pid}); its jobs went on\n")
    return 0


def _ask_pool(state_dir: str) -> dict[str, Any] | None:
    """Return what the pool says of itself; None while it says nothing."""
    try:
        with Api(ClientSettings(state_dir=state_dir)) as api:
            found: dict[str, Any] = api.request("GET", "pool")
            return found
    # An answer, not an absence: another server took the pool over, and waiting would not help.
    except StandbyServer:
        raise
    except ServiceUnavailable:
        return None


def _begin_anew(state_dir: str, before: dict[str, Any]) -> str:
    """Tell the server to begin anew and wait until it answers; return its version.

    Raises:
        PoolLost: It ended, or did not answer in time.
        StandbyServer: Another server on the same database took the pool over meanwhile.
    """
    handle = os.pidfd_open(int(before["pid"]))
    try:
        signal.pidfd_send_signal(handle, RESTART_SIGNAL)
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        deadline = time.monotonic() + AGAIN_SECONDS
        while time.monotonic() < deadline:
            if ended.poll(_LOOK_MS):
                raise PoolLost(
                    "the server ended instead of beginning anew; its jobs go on",
                    hint="see what it said where it runs (a unit: journalctl -u gpupool), then  "
                    "gpupool up",
                )
            now = _ask_pool(state_dir)
            # The old server may answer once more before it begins anew: they start at other times.
            if now is not None and now["ready"] and now["started_ns"] != before["started_ns"]:
                return str(now["version"])
    finally:
        os.close(handle)
    said = f"the server does not answer {AGAIN_SECONDS} s after it was told to begin anew"
    raise PoolLost(said, hint="gpupool doctor")
