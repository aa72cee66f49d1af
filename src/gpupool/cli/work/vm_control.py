"""`gpupool vm console`, `ssh`, `stop`, `reset`, `xml` and `delete`: verbs for one VM.

What one verb alone needs is imported by it: every `gpupool vm run` would wait for all of them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import (
    BadOption,
    CommandNotFound,
    NoPermission,
    ServiceUnavailable,
    WrongState,
)
from gpupool.cli.work.stop import await_ends, end_job, grace_seconds
from gpupool.cli.work.vm_files import fetch_vm, locate_vm, read_record, require_running
from gpupool.client.attached_run import ENDED
from gpupool.model.vm import USUAL_GRACE_SECONDS
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import CommandParser, add_yes, one_of
from gpupool.vm.files import VmFiles

Run = Callable[[argparse.Namespace, CommandContext], int]

#: Options of `vm ssh` that the next word belongs to.
_SSH_VALUED = frozenset({"-l", "--login", "-i", "--identity", "--state-dir"})


def register_verbs(parser: CommandParser) -> None:
    """Add the verbs for one VM."""
    console = _add_verb(parser, "console", "the serial console of a VM")
    console.about = "Ctrl-] leaves the console. The output so far: gpupool logs VM."
    ssh = _add_verb(parser, "ssh", "log in to a VM")
    ssh.add_argument("-l", "--login", metavar="USER", help="account in the guest")
    ssh.add_argument("-i", "--identity", metavar="FILE", help="private key, as ssh -i takes it")
    ssh.about = """
    As `ssh` reads them: options go before or after the VM, and what follows is the command to run in the guest. The
    account can also be written as USER@VM.
    """
    ssh.examples = ["gpupool vm ssh dev -l debian", "gpupool vm ssh debian@dev lspci -v"]
    ssh.placeholder = "[COMMAND ...]"
    ssh.split_words = split_ssh_words
    stop = _add_verb(parser, "stop", "shut a VM down and free its cards")
    stop.about = """
    Presses the power button of the guest. A guest that has not shut down within the grace period is ended, as by a
    power failure. The disk is kept.
    """
    stop.add_argument(
        "--grace",
        type=grace_seconds,
        default=USUAL_GRACE_SECONDS,
        metavar="TIME",
        help=f"grace period (default: {USUAL_GRACE_SECONDS}s)",
    )
    _add_verb(parser, "reset", "restart a VM as its reset button does")
    xml = _add_verb(parser, "xml", "describe a VM for libvirt or KubeVirt")
    xml.add_argument(
        "--for",
        dest="system",
        type=one_of("--for", "libvirt", "kubevirt"),
        default="libvirt",
        metavar="SYSTEM",
        help="libvirt (domain XML) or kubevirt (manifest) (default: libvirt)",
    )
    xml.add_argument(
        "--resource",
        default="nvidia.com/gpu",
        metavar="NAME",
        help="KubeVirt: resource of the cards (default: nvidia.com/gpu)",
    )
    xml.add_argument("--claim", metavar="NAME", help="KubeVirt: volume claim of the disk")
    delete = _add_verb(parser, "delete", "remove the disk of a VM that has ended")
    add_yes(delete)


def _add_verb(parser: CommandParser, name: str, summary: str) -> CommandParser:
    verb = parser.add_verb(name, summary)
    verb.add_argument("vm", metavar="VM", help="name or id")
    return verb


def split_ssh_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words of `vm ssh` into options with the VM, and the command for the guest.

    The order is that of OpenSSH: the command starts at the second word that is no option, or behind
    `--` where the VM is named before.
    """
    position = 0
    has_vm = False
    while position < len(words):
        word = words[position]
        if word == "--":
            end = position + 1 if has_vm else position + 2
            own = words[:position] if has_vm else (*words[:position], *words[position + 1 : end])
            return list(own), list(words[end:])
        is_option = word.startswith("-") and word != "-"
        if not is_option and has_vm:
            break
        has_vm = has_vm or not is_option
        position += 2 if word in _SSH_VALUED else 1
    return list(words[:position]), list(words[position:])


def split_account(text: str, login: str | None) -> tuple[str, str | None]:
    """Split `USER@VM` into the VM and the account, which `-l` may name as well.

    Raises:
        BadOption: Both name an account, and not the same.
    """
    account, at, vm = text.rpartition("@")
    if not at:
        return text, login
    if not account or login not in (None, account):
        raise BadOption(
            f"{text} with -l {login}: two accounts" if account else f"{text} names no account",
            hint=f"gpupool vm ssh {vm} -l {login or 'USER'}",
        )
    return vm, account


def _run_console(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.cli.work.vm_console import relay_console

    _, files = _find_running(options, context)
    return relay_console(files.console, options.vm)


def _run_ssh(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.vm.address import read_live_vm
    from gpupool.vm.argv import make_uuid

    options.vm, login = split_account(options.vm, options.login)
    job, files = _find_running(options, context)
    record = read_record(files, job)
    program = shutil.which("ssh")
    if program is None:
        raise CommandNotFound("ssh is not installed", hint="apt-get install openssh-client")
    if record.tap:
        address = ("127.0.0.1", 22)
        command = [sys.executable, "-P", "-m", "gpupool.vm.door", str(files.control.absolute())]
        door = shlex.join(command)
        words = [program, "-o", "ProxyUseFdpass=yes"]
        # A percent sign begins a token of ssh_config(5).
        words += ["-o", f"ProxyCommand={door.replace('%', '%%')}"]
    else:
        found = read_live_vm(files.control).address
        if found is None:
            raise ServiceUnavailable(f"{job['name']} has no network", hint="gpupool vm console")
        address = found
        words = [program, "-p", str(address[1])]
    # Ports are used again by other VMs, so the guest's key is kept under its own name and place.
    words += ["-o", f"HostKeyAlias={make_uuid(record.identity)}"]
    words += ["-o", f"UserKnownHostsFile={files.run / 'known_hosts'}"]
    words += ["-o", "StrictHostKeyChecking=accept-new"]
    if options.identity:
        words += ["-i", options.identity]
    if login:
        words += ["-l", login]
    # Behind `--`, so that no word of the command is an option of the ssh on this side.
    os.execv(program, [*words, "--", address[0], *options.command])


def _run_stop(options: argparse.Namespace, context: CommandContext) -> int:
    job = fetch_vm(context.api, options.vm)
    ending = end_job(context.api, job["id"], options.grace, live=False)
    return await_ends(context.api, ending, options.grace)


def _run_reset(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.vm.qmp import QmpConnection

    job, files = _find_running(options, context)
    with QmpConnection(files.control) as connection:
        connection.execute("system_reset")
    sys.stdout.write(f"{job['name']} reset\n")
    return 0


def _run_xml(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.vm.domain_xml import format_domain
    from gpupool.vm.kubevirt import build_virtual_machine

    job = fetch_vm(context.api, options.vm)
    files = locate_vm(context.api, job)
    record = read_record(files, job)
    if options.system == "libvirt":
        sys.stdout.write(format_domain(record, files))
        return 0
    claim = options.claim or f"{record.name}-disk"
    print_data(build_virtual_machine(record, resource=options.resource, volume_claim=claim), "yaml")
    return 0


def _run_delete(options: argparse.Namespace, context: CommandContext) -> int:
    job = fetch_vm(context.api, options.vm)
    name = job["name"]
    if job["state"] not in ENDED:
        raise WrongState(
            f"{name} is {job['state']}: its disk is in use", hint=f"gpupool vm stop {name}"
        )
    files = locate_vm(context.api, job)
    read_record(files, job)
    confirm_plan([f"remove the disk of {name} and what it wrote"], yes=options.yes)
    delete_files(files)
    sys.stdout.write(f"{name} deleted\n")
    return 0


def delete_files(files: VmFiles) -> None:
    """Remove the disk of a VM, and of its directory what this account may remove. Idempotent.

    The agent removes the rest: it keeps no directory without a disk.

    Raises:
        NoPermission: The disk is another account's.
    """
    try:
        files.disk.unlink(missing_ok=True)
    except PermissionError:
        raise NoPermission(
            f"{files.disk} belongs to another account", hint="run this command as its user, or root"
        ) from None
    shutil.rmtree(files.run, ignore_errors=True)
    shutil.rmtree(files.directory, ignore_errors=True)


def _find_running(
    options: argparse.Namespace, context: CommandContext
) -> tuple[dict[str, Any], VmFiles]:
    """Return the job and the files of a VM that runs on this machine."""
    job = fetch_vm(context.api, options.vm)
    require_running(job)
    files = locate_vm(context.api, job)
    read_record(files, job)
    return job, files


VERBS: Mapping[str, Run] = {
    "console": _run_console,
    "ssh": _run_ssh,
    "stop": _run_stop,
    "reset": _run_reset,
    "xml": _run_xml,
    "delete": _run_delete,
}
