"""`gpupool down`: end the jobs, stop the server; with --purge remove everything of the pool."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import (
    BadOption,
    DiskFull,
    NoPermission,
    PoolLost,
    PoolNotRunning,
    StandbyServer,
)
from gpupool.cli.pool.host_process import end_networks, purge_pool
from gpupool.cli.work.stop import await_ends, end_job, grace_seconds
from gpupool.client.paging import iterate_items
from gpupool.client.transport import Api
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser, add_yes

#: How long a server may take to stop: about two seconds for its answers, the rest for its disk.
END_SECONDS = 30


def register(parser: CommandParser) -> None:
    parser.about = """
    Shows the plan and, if something would be lost, asks (or use --yes). Jobs get SIGTERM and their grace period; the
    server stops last. --purge also works when the server is dead: it ends remaining jobs and removes everything
    that gpupool wrote to the state directory, and nothing else.
    """
    parser.examples = [
        "gpupool down",
        "gpupool down --purge --yes",
        "gpupool down --grace 60s",
        "sudo gpupool down --system",
    ]
    parser.add_argument(
        "--purge",
        action="store_true",
        help="also remove the pool's state: jobs, logs, usage records",
    )
    parser.add_argument(
        "--grace", type=grace_seconds, metavar="TIME", help="time for jobs to end (default: 10s)"
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="also disable and remove the service that gpupool up --system made; as root",
    )
    add_yes(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.system:
        from gpupool.cli.pool.system_service import run_down

        return run_down(options, context)
    return end_pool(options, context)


def end_pool(options: argparse.Namespace, context: CommandContext, also: Sequence[str] = ()) -> int:
    """End the jobs and stop the server; `also` is what the caller does afterwards, for the plan."""
    state_dir = context.state_dir
    api = Api(ClientSettings(state_dir=state_dir))
    try:
        pool = api.request("GET", "pool")
    except PoolNotRunning:
        return _end_without_server(state_dir, options)
    except StandbyServer as error:
        if also:
            confirm_plan([f"stop the standby at {state_dir}", *also], yes=options.yes)
        return _stop_standby(state_dir, options, error)
    # Before the question and before any job is ended: half of a `down` helps no one.
    check_may_stop(int(pool["pid"]))
    jobs = list(iterate_items(api, "jobs", {"live": True}))
    plan = []
    for job in jobs:
        plan.append(f"end {job['name']} of {job['tenant']} ({job['state']}, {job['share']})")
    plan.append(f"stop the server (pid {pool['pid']})")
    if options.purge:
        plan.append(f"remove everything of the pool in {state_dir}, its books too")
    plan += also
    # Nothing is asked where nothing is lost: no job lives, and the state stays.
    confirm_plan(plan, yes=options.yes or not (jobs or options.purge or also))
    try:
        # Jobs first: once the server has gone, no one tells how they ended.
        late = _end_jobs(api, jobs, options.grace)
    except DiskFull as error:
        # A full disk takes no order to end a job; the host ends the jobs itself when it purges.
        if not options.purge:
            raise
        print_notice(f"{error.message}; the jobs are ended once the server has stopped")
        late = 0
    api.close()
    stop_server(pool)
    sys.stdout.write("the server has stopped\n")
    if options.purge:
        return _purge_state(state_dir)
    if late:
        # They may be in networks, so these go on as well.
        sys.stdout.write("some jobs were still ending; gpupool up  takes them back\n")
        return late
    return end_networks(state_dir)


def _stop_standby(state_dir: str, options: argparse.Namespace, error: StandbyServer) -> int:
    """Stop a server that does not lead: no job is its own, and the database is the leader's."""
    if "pid" not in error.details:
        raise error
    stop_server({"pid": error.details["pid"]})
    sys.stdout.write("the standby has stopped; the leader and all jobs go on\n")
    return _purge_state(state_dir) if options.purge else 0


def _end_without_server(state_dir: str, options: argparse.Namespace) -> int:
    if not os.path.exists(os.path.join(state_dir, "pool.json")) and not os.path.isdir(state_dir):
        if options.purge:
            sys.stdout.write(f"nothing is there to remove: {state_dir} does not exist\n")
            return 0
        raise PoolNotRunning(f"no pool is running at {state_dir}", hint="start one: gpupool up")
    if not options.purge:
        raise PoolNotRunning(
            f"no pool is running at {state_dir}",
            hint="gpupool up  starts it again;  gpupool down --purge  ends what is left of it and "
            "removes it",
        )
    confirm_plan(
        [
            f"end what is left of the jobs of {state_dir}",
            f"remove everything of the pool in {state_dir}, its books too",
        ],
        yes=options.yes,
    )
    return _purge_state(state_dir)


def _end_jobs(api: Api, jobs: list[dict[str, Any]], grace: int | None) -> int:
    stopping = []
    for job in jobs:
        stopping += end_job(api, job["id"], grace, live=True)
    return await_ends(api, stopping, 10 if grace is None else grace)


def check_may_stop(pid: int) -> None:
    """Raise NoPermission unless this process may end the server.

    Asked before a job is ended, not after.
    """
    try:
        # Signal 0 checks the right to signal and sends nothing; kill(2).
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    except PermissionError:
        raise _describe_foreign(pid) from None


def _describe_foreign(pid: int) -> NoPermission:
    return NoPermission(
        f"the server (pid {pid}) belongs to another user; nothing was ended",
        hint="its user or root types: gpupool down",
    )


def stop_server(pool: dict[str, Any]) -> None:
    """Send SIGTERM and wait until the process has ended.

    Raises:
        NoPermission: The server belongs to another user.
        PoolLost: It did not stop in time.
    """
    pid = int(pool["pid"])
    try:
        # A descriptor of the process: a pid that is used again meanwhile cannot be hit.
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(END_SECONDS * 1000):
            raise PoolLost(
                f"the server (pid {pid}) did not stop within {END_SECONDS} s", hint="gpupool doctor"
            )
    except ProcessLookupError:
        return
    except PermissionError:
        raise _describe_foreign(pid) from None
    finally:
        os.close(handle)


def _purge_state(state_dir: str) -> int:
    # A state directory of "/" can only be a mistake, as an unset variable in a script.
    if os.path.abspath(state_dir) == "/":
        raise BadOption("/ is no state directory", hint="check --state-dir")
    return purge_pool(state_dir)
