"""`gpupool up`: start a pool on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.base.room import check_room_for_new_pool
from gpupool.cli.pool import system_service
from gpupool.cli.pool.host_process import HostStart, open_log
from gpupool.cli.pool.welcome import print_welcome
from gpupool.delivery.notice import send_ready, take_notice_address
from gpupool.terminal.container_options import add_policy_options
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser

#: Options that the host has by the same name.
_PASSED_ON = (
    ("sim", "--sim"),
    ("tls_cert", "--tls-cert"),
    ("tls_key", "--tls-key"),
    ("store", "--store"),
    ("node_name", "--node-name"),
    ("fence_reaction", "--fence-reaction"),
)


ABOUT = """
    Real cards start observed: shown and not used until `gpupool adopt`. Simulated cards are marked everywhere. An
    existing pool starts again with its cards and takes its jobs back.

    In the foreground Ctrl-C stops the server; jobs keep running and are taken back at the next `gpupool up`.
    `gpupool down` ends them. As root the state is in /var/lib/gpupool and every user of the machine finds the
    pool; else it is yours alone.

    --system makes it a service of systemd with the options given: it starts with the machine, logs to the journal,
    and is restarted when it fails. Typing it again changes only what differs.
    """

EXAMPLES = [
    "gpupool up --sim 2x8xH200",
    "gpupool up -d",
    "gpupool up -d --sim 4xL40S --state-dir /tmp/pool",
    "gpupool up -d --sim 2x8xH200 --label zone=z1 --label sim-0:rack=r1 --label sim-1:rack=r2",
    "gpupool up --listen 127.0.0.1:8470",
    "gpupool up --listen :8443 --tls-cert pool.pem --tls-key pool.key",
    "sudo gpupool up --system --yes",
    "gpupool up --print-unit --listen 127.0.0.1:8470",
]


def register(parser: CommandParser) -> None:
    parser.about = ABOUT
    parser.examples = EXAMPLES
    parser.add_argument(
        "--sim",
        metavar="SPEC",
        help="simulated cards: 4xL40S, 2x8xH200 (nodes x cards x model), mixed",
    )
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="listen on this address too",
    )
    parser.add_argument(
        "--insecure-http", action="store_true", help="allow plain HTTP beyond loopback"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain for --listen")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key")
    parser.add_argument(
        "--store",
        metavar="URL",
        help="a PostgreSQL database instead of SQLite in the state directory",
    )
    parser.add_argument(
        "--standby",
        action="store_const",
        const=True,
        help="one of two servers on a PostgreSQL database; waits while the other one leads; has no "
        "cards",
    )
    parser.add_argument(
        "--no-standby",
        action="store_false",
        dest="standby",
        default=None,
        help="a single server again, with this machine's cards (default: as before)",
    )
    parser.add_argument(
        "--node-name", metavar="NAME", help="name of this machine (default: node-1)"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="[NODE:]KEY=VALUE",
        help="of its nodes, or of one: rack=r1, sim-1:rack=r2; may be repeated (default: as "
        "before)",
    )
    parser.add_argument(
        "--job-limit",
        action="append",
        default=[],
        metavar="NAME=[SOFT:]HARD",
        help="limit of every job: nofile=1024:65536, processes=4096, host-memory=64GiB; may be "
        "repeated",
    )
    add_policy_options(parser)
    parser.add_argument(
        "--fence-reaction",
        choices=("warn", "freeze", "kill"),
        help="reaction when a job exceeds its share (default: kill as root, else warn)",
    )
    parser.add_argument(
        "-d",
        "--detach",
        action="store_true",
        help="return when the pool answers; it runs in the background",
    )
    system_service.add_up_options(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    state_dir = context.state_dir
    words = make_host_words(options)
    if options.print_unit:
        sys.stdout.write(system_service.make_unit(options, words, state_dir))
        return 0
    if options.system:
        return system_service.run_up(options, context, words)
    if options.system_root:
        raise BadOption(
            "--system-root needs --system", hint="gpupool up --system --system-root DIR"
        )
    if options.detach:
        return _run_detached(state_dir, words, context)
    return _run_foreground(state_dir, words, context)


def make_host_words(options: argparse.Namespace) -> list[str]:
    """Make the host's flags; files by their full path, since the server works elsewhere."""
    words: list[str] = []
    for dest, flag in _PASSED_ON:
        value = getattr(options, dest)
        if value is not None:
            words += [flag, os.path.abspath(value) if dest.startswith("tls") else value]
    for address in options.listen:
        words += ["--listen", address]
    for label in options.label:
        words += ["--label", label]
    for limit in options.job_limit:
        words += ["--job-limit", limit]
    for image in options.allow_image:
        words += ["--allow-image", image]
    for place in options.allow_volume:
        words += ["--allow-volume", os.path.abspath(place)]
    if options.standby is not None:
        words.append("--standby" if options.standby else "--no-standby")
    return [*words, "--insecure-http"] if options.insecure_http else words


def _run_detached(state_dir: str, words: list[str], context: CommandContext) -> int:
    said = start_detached(state_dir, words)
    print_welcome(state_dir, said, context, detached=True)
    return 0


def _run_foreground(state_dir: str, words: list[str], context: CommandContext) -> int:
    address = take_notice_address(os.environ)
    # A service manager that sees us end starts anew, and must not meet a server without a parent.
    start = HostStart(state_dir, words, log=None, ends_with_us=bool(address))
    with _end_with_us(start):
        said = start.await_ready()
        send_ready(address)
        print_welcome(state_dir, said, context, detached=False)
        # Returns in the foreground when the server ends, also by `gpupool down` elsewhere.
        status = start.process.wait()
    if status < 0:
        print_notice(
            f"the server was ended by signal {-status}; its jobs go on: gpupool up  takes them back"
        )
        return 128 - status
    return status


@contextmanager
def _end_with_us(start: HostStart) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP stop the server too while the block runs, and see it end."""
    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, _raise_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        start.process.terminate()
        start.process.wait()
        if start.is_ready:
            print_notice(
                "the server has stopped; its jobs go on: gpupool up  takes them back, gpupool down "
                "--purge  ends them"
            )
        else:
            print_notice(
                "this server was not ready yet and has stopped: gpupool up  starts it again"
            )
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def start_detached(state_dir: str, words: list[str]) -> dict[str, Any]:
    """Start a server that goes on without us; return what it says of itself.

    A directory that was made for nothing is removed.
    """
    is_new = not os.path.exists(state_dir)
    if not os.path.exists(os.path.join(state_dir, "pool.json")):
        check_room_for_new_pool(state_dir)
    try:
        with open_log(state_dir) as log:
            start = HostStart(state_dir, words, log=log)
            with _end_with_us(start):
                return start.await_ready()
    except (GpupoolError, KeyboardInterrupt):
        if is_new:
            _remove_empty(state_dir)
        raise


def _remove_empty(state_dir: str) -> None:
    """Remove a state directory, unless the server has left something there that explains its end."""
    with suppress(OSError):
        log = os.path.join(state_dir, "server.log")
        if os.path.getsize(log) == 0:
            os.unlink(log)
    with suppress(OSError):
        os.rmdir(state_dir)
