"""The pool as a service of the machine: the part of `up`, `down` and `doctor` about systemd."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import (
    BadOption,
    GpupoolError,
    NoPermission,
    PoolNotRunning,
    SystemdUnusable,
)
from gpupool.cli.pool.down import check_may_stop, end_pool, stop_server
from gpupool.cli.pool.host_process import is_kept
from gpupool.client.transport import Api
from gpupool.delivery.system_service import ServiceState, SystemService
from gpupool.delivery.unit import NAME, write_unit
from gpupool.terminal.check_rows import FAIL, OK, WARN, Check, make_check
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import add_yes, path_of


def add_up_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `gpupool up` about the service."""
    parser.add_argument(
        "--system",
        action="store_true",
        help="as a service of systemd that starts with the machine; as root; shows the plan and asks",
    )
    parser.add_argument(
        "--system-root",
        metavar="DIR",
        type=path_of("--system-root"),
        help="with --system: change the files below DIR, the image of a machine; start nothing",
    )
    parser.add_argument(
        "--print-unit", action="store_true", help="print the unit of --system and do nothing"
    )
    add_yes(parser)


def make_unit(options: argparse.Namespace, words: Sequence[str], state_dir: str) -> str:
    """Make the unit's text for the options of `gpupool up`."""
    return write_unit(
        str(find_program()), os.path.abspath(state_dir), words, is_standby=bool(options.standby)
    )


def find_program() -> Path:
    """Find the command of this installation, by the path that stays through upgrades.

    Raises:
        BadOption: It is not beside the Python that runs.
    """
    beside = Path(sys.prefix) / "bin" / "gpupool"
    # install.sh of a bundle: PREFIX/versions/NAME is this environment, PREFIX/bin the stable one.
    stable = Path(sys.prefix).parent.parent / "bin" / "gpupool"
    is_bundle = Path(sys.prefix).parent.name == "versions"
    if is_bundle and stable.exists() and stable.resolve() == beside.resolve():
        return stable
    if not os.access(beside, os.X_OK):
        raise BadOption(
            f"{beside} is not there, and the service needs a command that stays",
            hint="install gpupool into an environment of its own: docs/how-to/install.md",
        )
    return beside


def run_up(options: argparse.Namespace, context: CommandContext, words: Sequence[str]) -> int:
    """Install and start the service, after its plan was agreed to."""
    service = SystemService(Path(options.system_root or "/"))
    _check_root("up --system")
    _check_store(options.store)
    service.check_usable()
    state = service.read_state()
    service.check_own(state)
    text = make_unit(options, words, context.state_dir)
    background = _find_background(context.state_dir, state) if service.is_live else None
    plan = plan_up(service, state, text, background)
    if not plan:
        sys.stdout.write(f"{NAME} is enabled and runs as asked; nothing to change\n")
        return 0
    confirm_plan(plan, yes=options.yes)
    if options.standby:
        service.make_state_directory(Path(os.path.abspath(context.state_dir)))
    if state.text != text or not state.is_enabled:
        service.install(text)
    if not service.is_live:
        sys.stdout.write(f"{service.path} is written and enabled\n")
        return 0
    if background is not None:
        stop_server(background)
    service.start(again=state.activity == "active")
    sys.stdout.write(
        f"{NAME} runs and starts with this machine\n"
        "  systemctl status gpupool\n  journalctl -u gpupool -f\n  gpupool down --system  removes it\n"
    )
    return 0


def _check_store(store: str | None) -> None:
    """Refuse a password in the unit, which every account of the machine can read."""
    if store is not None and urlsplit(store).password:
        raise BadOption(
            "--store has a password, and every account can read a unit",
            hint="put it into /root/.pgpass (mode 0600) and leave it out of the address",
        )


def plan_up(
    service: SystemService, state: ServiceState, text: str, background: dict[str, Any] | None
) -> list[str]:
    """List what `up --system` is about to do; empty where all is as asked."""
    plan = []
    if state.text is None:
        plan.append(f"write {service.path}")
    elif state.text != text:
        plan.append(f"replace {service.path}, whose options differ")
    if not state.is_enabled:
        plan.append(f"enable {NAME}: it starts with this machine")
    if not service.is_live:
        return plan
    if background is not None:
        plan.append(f"stop the server in the background (pid {background['pid']}); its jobs go on")
    if state.activity != "active":
        plan.append(f"start {NAME}, which takes the jobs back")
    elif state.text != text:
        plan.append(f"restart {NAME}; its jobs go on")
    return plan


def _find_background(state_dir: str, state: ServiceState) -> dict[str, Any] | None:
    """Return the server of this state directory that `up -d` started, if one runs.

    Raises:
        SystemdUnusable: One runs in the foreground of something else than the service.
    """
    try:
        with Api(ClientSettings(state_dir=state_dir)) as api:
            pool: dict[str, Any] = api.request("GET", "pool")
    except GpupoolError:
        return None
    pid = int(pool["pid"])
    if is_kept(pid):
        if state.activity not in ("active", "activating", "reloading"):
            raise SystemdUnusable(
                f"a server runs in the foreground already (pid {pid})",
                hint="end it with Ctrl-C where it runs; its jobs go on",
            )
        return None
    check_may_stop(pid)
    return pool


def run_down(options: argparse.Namespace, context: CommandContext) -> int:
    """End the pool as `gpupool down` does, and remove the service."""
    service = SystemService()
    _check_root("down --system")
    state = service.read_state()
    service.check_own(state)
    if state.text is None:
        print_notice(f"there is no service to remove: {service.path} is not there")
        return end_pool(options, context)
    plan = [f"disable {NAME} and remove {service.path}"]
    code = 0
    try:
        code = end_pool(options, context, also=plan)
    except PoolNotRunning:
        # A service that failed, or a run of this command that was cut off.
        confirm_plan(plan, yes=options.yes)
    service.remove()
    sys.stdout.write(f"{NAME} is removed\n")
    return code


def _check_root(command: str) -> None:
    if os.geteuid() != 0:
        raise NoPermission(
            f"gpupool {command} changes this machine's services: it needs root",
            hint=f"sudo {os.path.join(sys.prefix, 'bin', 'gpupool')} {command}",
        )


def check_service(service: SystemService | None = None) -> list[Check]:
    """Return the row of `gpupool doctor` about the service; none where systemd does not run."""
    service = service or SystemService()
    if not service.is_live and not service.path.exists():
        return []
    try:
        state = service.read_state()
    except (SystemdUnusable, OSError) as error:
        return [make_check("service", WARN, f"{NAME}: nothing is known: {error}")]
    return [describe_service(service, state)]


def describe_service(service: SystemService, state: ServiceState) -> Check:
    """Describe the service in a row."""
    if state.text is None:
        return make_check(
            "service", OK, "not a service of this machine; gpupool up --system  makes it one"
        )
    program = _read_program(state.text)
    if program and not os.access(program, os.X_OK):
        return make_check(
            "service", FAIL, f"{service.path} names {program}, which is not there",
            "gpupool up --system  writes it anew",
        )  # fmt: skip
    if state.activity == "failed":
        return make_check(
            "service", FAIL, f"{NAME} has failed", "journalctl -u gpupool -n 50  shows why"
        )
    if not state.is_enabled:
        return make_check(
            "service", WARN, f"{NAME} does not start with this machine", "gpupool up --system"
        )
    if service.is_live and state.activity != "active":
        return make_check(
            "service", WARN, f"{NAME} is enabled and {state.activity}", "systemctl start gpupool"
        )
    return make_check("service", OK, f"{NAME} is enabled, {state.activity}")


def _read_program(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("ExecStart="):
            return line.removeprefix("ExecStart=").split()[0].strip('"').replace("%%", "%")
    return ""
