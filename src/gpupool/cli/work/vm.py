"""`gpupool vm`: virtual machines with whole cards."""

from __future__ import annotations

import argparse

from gpupool.cli.work import vm_control, vm_image, vm_list, vm_run
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    A VM is a job whose program is QEMU: it waits, holds cards, is metered and is stopped like any job. A VM takes
    whole cards. It writes to a disk of its own, which is kept when it stops and removed by `delete`. Without working
    hardware virtualization a VM is emulated, which is slow; `list` says so.
    """
    parser.examples = [
        "gpupool vm image import debian-12.qcow2",
        "gpupool vm run --gpu 1 --image debian-12 --ram 16GiB --cpus 8 --ssh-key ~/.ssh/id_ed25519.pub --name dev",
        "gpupool vm ssh dev -l debian",
        "gpupool vm stop dev",
        "gpupool vm start dev",
        "gpupool vm delete dev",
    ]
    parser.add_verbs()
    vm_run.register(parser.add_verb("run", "start a VM"))
    vm_list.register(parser.add_verb("list", "VMs: state, cards, address"))
    vm_run.register_start(
        parser.add_verb("start", "start a VM that has ended again, with its disk")
    )
    vm_control.register_verbs(parser)
    vm_image.register(parser.add_verb("image", "disk images that VMs start from"))


def run(options: argparse.Namespace, context: CommandContext) -> int:
    verbs = {
        "run": vm_run.run,
        "start": vm_run.run_start,
        "list": vm_list.run,
        "image": vm_image.run,
        **vm_control.VERBS,
    }
    return verbs[options.verb](options, context)
