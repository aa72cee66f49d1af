"""`gpupool down`: end the jobs, stop the server; with --purge remove everything of the pool."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from typing import Any

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import BadOption, DiskFull, NotAllowed, PoolLost, PoolNotRunning, Standby
from gpupool.cli.confirm import confirm
from gpupool.cli.context import Context, say
from gpupool.cli.host_process import purge
from gpupool.cli.parser import Parser, add_yes
from gpupool.cli.stop import await_ends, end, grace_seconds
from gpupool.client.paging import every
from gpupool.client.transport import Api

END_SECONDS = 30


def register(parser: Parser) -> None:
    parser.about = """
    First the plan; then, unless nothing would be lost, the question (or --yes). Jobs get SIGTERM and their
    grace, the server stops last. Works with --purge also when the server is dead: what is left of its jobs is
    ended, then everything that gpupool put into the state directory is removed, and nothing else.
    """
    parser.examples = ["gpupool down", "gpupool down --purge --yes", "gpupool down --grace 60s"]
    parser.add_argument("--purge", action="store_true", help="also remove the pool's state: jobs, logs, books")
    parser.add_argument("--grace", type=grace_seconds, metavar="TIME", help="time for jobs to end (default: 10s)")
    add_yes(parser)


def run(options: argparse.Namespace, context: Context) -> int:
    state_dir = context.state_dir
    api = Api(ClientSettings(state_dir=state_dir))
    try:
        pool = api.request("GET", "pool")
    except PoolNotRunning:
        return _without_server(state_dir, options)
    except Standby as error:
        return _standby(state_dir, options, error)
    check_may_stop(int(pool["pid"]))
    jobs = list(every(api, "jobs", {"live": True}))
    plan = [f"end {job['name']} of {job['tenant']} ({job['state']}, {job['share']})" for job in jobs]
    plan.append(f"stop the server (pid {pool['pid']})")
    if options.purge:
        plan.append(f"remove everything of the pool in {state_dir}, its books too")
    confirm(plan, yes=options.yes or not (jobs or options.purge))
    try:
        late = _end_jobs(api, jobs, options.grace)
    except DiskFull as error:
        if not options.purge:
            raise
        say(f"{error.message}; the jobs are ended once the server has stopped")
        late = 0
    api.close()
    stop_server(pool)
    sys.stdout.write("the server has stopped\n")
    if options.purge:
        return _purge(state_dir)
    if late:
        sys.stdout.write("some jobs were still ending; gpupool up  takes them back\n")
    return late


def _standby(state_dir: str, options: argparse.Namespace, error: Standby) -> int:
    """Stop a server that does not lead: no job is its own, and the database is the leader's."""
    if "pid" not in error.details:
        raise error
    stop_server({"pid": error.details["pid"]})
    sys.stdout.write("the standby has stopped; the leader and all jobs go on\n")
    return _purge(state_dir) if options.purge else 0


def _without_server(state_dir: str, options: argparse.Namespace) -> int:
    if not os.path.exists(os.path.join(state_dir, "pool.json")) and not os.path.isdir(state_dir):
        if options.purge:
            sys.stdout.write(f"nothing is there to remove: {state_dir} does not exist\n")
            return 0
        raise PoolNotRunning(f"no pool is running at {state_dir}", hint="start one: gpupool up")
    if not options.purge:
        raise PoolNotRunning(
            f"no pool is running at {state_dir}",
            hint="gpupool up  starts it again;  gpupool down --purge  ends what is left of it and removes it",
        )
    confirm(
        [
            f"end what is left of the jobs of {state_dir}",
            f"remove everything of the pool in {state_dir}, its books too",
        ],
        yes=options.yes,
    )
    return _purge(state_dir)


def _end_jobs(api: Api, jobs: list[dict[str, Any]], grace: int | None) -> int:
    stopping = [told for job in jobs for told in end(api, job["id"], grace, live=True)]
    return await_ends(api, stopping, 10 if grace is None else grace)


def check_may_stop(pid: int) -> None:
    """Raise NotAllowed unless this process may end the server: asked before a job is ended, not after."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    except PermissionError:
        raise _of_another(pid) from None


def _of_another(pid: int) -> NotAllowed:
    return NotAllowed(
        f"the server (pid {pid}) belongs to another user; nothing was ended",
        hint="its user or root types: gpupool down",
    )


def stop_server(pool: dict[str, Any]) -> None:
    """SIGTERM, and wait until the process has ended. Raises NotAllowed, PoolLost."""
    pid = int(pool["pid"])
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(END_SECONDS * 1000):
            raise PoolLost(f"the server (pid {pid}) did not stop within {END_SECONDS} s", hint="gpupool doctor")
    except ProcessLookupError:
        return
    except PermissionError:
        raise _of_another(pid) from None
    finally:
        os.close(handle)


def _purge(state_dir: str) -> int:
    if os.path.abspath(state_dir) == "/":
        raise BadOption("/ is no state directory", hint="check --state-dir")
    return purge(state_dir)
