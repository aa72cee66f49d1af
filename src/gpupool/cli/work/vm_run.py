"""`gpupool vm run`: start a virtual machine with whole cards."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadOption, VmRejection, WrongState
from gpupool.base.ids import check_name
from gpupool.base.units import parse_duration, parse_memory
from gpupool.cli.work.vm_files import fetch_vm, find_pool_paths, locate_vm, read_record
from gpupool.client.attached_run import ENDED
from gpupool.client.launch_capture import capture
from gpupool.client.network_join import make_network_join
from gpupool.client.submission import host_shape, share_shape
from gpupool.client.transport import Api
from gpupool.model.vm import (
    LARGEST_CLOUD_INIT,
    LARGEST_RAM_BYTES,
    MIB,
    MOST_CPUS,
    OVERHEAD_BYTES,
    SMALLEST_RAM_BYTES,
    USUAL_CPUS,
    VM_COMMAND,
)
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import CommandParser, integer_within, one_of, path_of
from gpupool.vm.disk import find_start_format
from gpupool.vm.files import VmRecord
from gpupool.vm.images import ImageStore

#: Value of `--gpu` for a VM without a card.
NO_CARD = "none"


def register(parser: CommandParser) -> None:
    parser.about = """
    Prints the id of the VM's job. The image stays as it is: what the VM writes goes to a disk of its own. The VM's
    memory is held on its node with 512 MiB more for QEMU. --ssh-key and --cloud-init reach the guest by cloud-init.
    """
    parser.examples = [
        "gpupool vm run --gpu 1 --image debian-12 --ssh-key ~/.ssh/id_ed25519.pub --name dev",
        "gpupool vm run --gpu 2 --image disk.qcow2 --cpus 16 --ram 64GiB --model H200",
        "gpupool vm run --gpu none --image debian-12 --cpus 2 --name build",
        "gpupool vm run --gpu 1 --image debian-12 --network lab --address 10.0.0.20 --name db",
        "gpupool vm run --gpu 1 --kernel vmlinuz --initrd initrd.img --append console=ttyS0",
    ]
    parser.add_argument("--gpu", default="1", metavar="N", help="whole cards, or none (default: 1)")
    parser.add_argument("--model", metavar="MODEL", help="only cards of this model, e.g. H200")
    parser.add_argument("--image", metavar="IMAGE", help="an image of the store, or a file")
    parser.add_argument(
        "--kernel", type=path_of("--kernel"), metavar="FILE", help="boot this kernel directly"
    )
    parser.add_argument(
        "--initrd", type=path_of("--initrd"), metavar="FILE", help="with this initial file system"
    )
    parser.add_argument(
        "--firmware",
        type=one_of("--firmware", "bios", "uefi"),
        default="bios",
        metavar="KIND",
        help="what the VM boots by: bios, uefi (default: bios)",
    )
    parser.add_argument("--append", default="", metavar="TEXT", help="the kernel's command line")
    parser.add_argument(
        "--cpus",
        type=integer_within("--cpus", "the number of processors", 1, MOST_CPUS),
        default=USUAL_CPUS,
        metavar="N",
        help=f"processors of the VM (default: {USUAL_CPUS})",
    )
    parser.add_argument(
        "--ram", default="2GiB", metavar="SIZE", help="memory of the VM (default: 2GiB)"
    )
    parser.add_argument(
        "--ssh-key",
        action="append",
        default=[],
        metavar="FILE",
        help="public key for the image's usual account; may be repeated",
    )
    parser.add_argument(
        "--cloud-init", metavar="FILE", help="user data for cloud-init in the guest"
    )
    parser.add_argument("--name", metavar="NAME", help="name of the VM and of its host")
    _add_network(parser)
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="have that address of the network: IPv4, IPv6, or both with a comma (default: any)",
    )
    parser.add_argument(
        "--security-group",
        action="append",
        default=[],
        metavar="GROUP",
        help="of the network: its members and rules alone reach the VM; may be repeated",
    )
    parser.add_argument("--max-time", metavar="TIME", help="end the VM after 90s, 30m, 2h")
    parser.add_argument("--no-wait", action="store_true", help="refuse instead of waiting")
    parser.add_argument(
        "-o", "--output", type=one_of("-o", "text", "json"), default="text", metavar="FORMAT",
        help="text, json (default: text)",
    )  # fmt: skip


def _add_network(parser: CommandParser) -> None:
    parser.add_argument(
        "--network", metavar="NAME", help="join that network of the tenant; none: QEMU's own"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    api = context.api
    body = build_body(options, api)
    # The key makes a repetition after a lost answer harmless: one VM is started.
    submitted = api.request("POST", "jobs", body, idempotency_key=os.urandom(16).hex())
    job = submitted["first"]
    if options.output == "json":
        print_data(job, "json")
        return 0
    sys.stdout.write(f"{job['id']}\n")
    if sys.stderr.isatty():
        print_notice(f"{job['name']}: {job['share']}; gpupool vm list  shows it")
    return 0


def register_start(parser: CommandParser) -> None:
    """Add the options of `vm start`."""
    parser.about = """
    Starts a VM that has ended again: with its disk, its sizes and its name, on cards that are free now. It is a new
    job with a new id. The guest keeps its addresses. The old job has no disk from then on. A VM of a network joins it
    again, in the same security groups.
    """
    parser.add_argument("vm", metavar="VM", help="name or id")
    _add_network(parser)
    parser.add_argument("--no-wait", action="store_true", help="refuse instead of waiting")


def run_start(options: argparse.Namespace, context: CommandContext) -> int:
    """Submit a VM that goes on with the disk of one that has ended."""
    api = context.api
    job = fetch_vm(api, options.vm)
    if job["state"] not in ENDED:
        raise WrongState(f"{job['name']} is {job['state']}", hint="gpupool vm list")
    files = locate_vm(api, job)
    record = read_record(files, job)
    if not files.has_disk():
        raise WrongState(f"{job['name']} has no disk any more", hint="gpupool vm run")
    body = build_start(job, record, wait=not options.no_wait)
    if options.network is not None:
        body["launch"]["network"] = make_network_join(options.network, ())
    submitted = api.request("POST", "jobs", body, idempotency_key=os.urandom(16).hex())
    sys.stdout.write(f"{submitted['first']['id']}\n")
    return 0


def build_start(job: dict[str, Any], record: VmRecord, *, wait: bool) -> dict[str, Any]:
    """Build the body of POST /jobs that goes on with a VM."""
    vm: dict[str, Any] = {
        "cpus": record.cpus,
        "ram_bytes": record.ram_bytes,
        "image": record.image,
        "kernel": record.kernel,
        "initrd": record.initrd,
        "append": record.append,
        "continues": job["id"],
        "identity": record.identity,
        "has_old_seed": record.seeded,
        "firmware": "uefi" if record.firmware_code else "bios",
    }
    shape = shape_cards(str(job["count"] or NO_CARD), job["model"])
    host_bytes = record.ram_bytes + OVERHEAD_BYTES
    shape |= {**host_shape(str(record.cpus), None), "host_bytes": host_bytes}
    words = [VM_COMMAND, record.image or record.kernel or ""]
    launch = capture(words, cwd="/", environ={}, local=False)
    return {"shape": shape, "launch": {**launch, "vm": vm}, "name": record.name, "wait": wait}


def build_body(options: argparse.Namespace, api: Api) -> dict[str, Any]:
    """Build the body of POST /jobs. Reads the files that are named; raises BadInput."""
    vm = build_vm(options, api)
    shown = options.image or options.kernel
    shape = shape_cards(check_cards(options.gpu), options.model)
    host_bytes = vm["ram_bytes"] + OVERHEAD_BYTES
    shape |= {**host_shape(str(options.cpus), None), "host_bytes": host_bytes}
    launch = capture([VM_COMMAND, shown], cwd="/", environ={}, local=False)
    body: dict[str, Any] = {"shape": shape, "launch": {**launch, "vm": vm}}
    if options.network is not None or options.security_group or options.address is not None:
        body["launch"]["network"] = make_network_join(
            options.network, options.security_group, options.address
        )
    body["wait"] = not options.no_wait
    body["name"] = check_name(options.name, "VM name") if options.name else _make_name()
    if options.max_time is not None:
        body["max_seconds"] = parse_duration(options.max_time)
    return body


def check_cards(text: str) -> str:
    """Return the number of whole cards as `--gpu` has it, or `none`.

    Raises:
        VmRejection: It is a part of a card.
    """
    if text == NO_CARD:
        return text
    if text == "0":
        raise VmRejection("--gpu 0: a VM without a card is asked for by name", hint="--gpu none")
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise VmRejection(
            f"--gpu {text}: a VM takes whole cards, because the driver inside the guest has the "
            "card for itself and knows no share",
            hint="--gpu 1; a share of a card is for jobs: gpupool submit --gpu 0.3",
        )
    return text


def shape_cards(cards: str, model: str | None) -> dict[str, Any]:
    """Return the cards' part of the claim.

    Raises:
        BadOption: A model is named for no card.
    """
    if cards != NO_CARD:
        return share_shape(cards, None, None, model, (), "fixed")
    if model is not None:
        raise BadOption(f"--model {model} with --gpu none", hint="leave out --model, or --gpu 1")
    return {"gpu_milli": 0, "count": 0, "sharing": "fixed"}


def build_vm(options: argparse.Namespace, api: Api) -> dict[str, Any]:
    """Build the VM's part of the body."""
    if options.image is None and options.kernel is None:
        raise BadOption(
            "what does the VM boot from?", hint="give --image IMAGE, or --kernel and --initrd"
        )
    if options.kernel is None and (options.initrd or options.append):
        raise BadOption("--initrd and --append need a kernel", hint="add --kernel FILE")
    ram_bytes = parse_memory(options.ram) // MIB * MIB
    if not SMALLEST_RAM_BYTES <= ram_bytes <= LARGEST_RAM_BYTES:
        raise BadOption(f"--ram {options.ram}: a VM has 64 MiB to 16 TiB", hint="--ram 2GiB")
    vm: dict[str, Any] = {"cpus": options.cpus, "ram_bytes": ram_bytes}
    if options.image is not None:
        vm["image"] = str(find_image(options.image, api))
    for name in ("kernel", "initrd"):
        path = getattr(options, name)
        if path is not None:
            vm[name] = str(_check_file(Path(path), f"--{name}", api))
    if options.append:
        vm["append"] = options.append
    if options.firmware != "bios":
        vm["firmware"] = options.firmware
    vm["ssh_keys"] = [_read_key(Path(path)) for path in options.ssh_key]
    if options.cloud_init is not None:
        vm["cloud_init"] = _read_cloud_init(Path(options.cloud_init))
    return vm


def find_image(text: str, api: Api) -> Path:
    """Return the absolute path of an image: a file, or one of the pool's store.

    Raises:
        BadImage: The file is no disk image that a VM starts from.
        NotFound: There is neither a file nor an image of this name.
    """
    path = Path(text)
    if not api.local:
        # The node has the file, not this machine; the node checks it.
        return path
    if "/" not in text and not path.exists():
        store = ImageStore(find_pool_paths(api).images)
        return store.locate(store.find_image(text)).absolute()
    find_start_format(path.absolute())
    return path.absolute()


def _check_file(path: Path, option: str, api: Api) -> Path:
    if api.local and not path.is_file():
        raise BadOption(f"{option} {path}: there is no such file")
    return path.absolute()


def _read_key(path: Path) -> str:
    text = _read_text(path, "--ssh-key")
    if "PRIVATE KEY" in text:
        raise BadOption(
            f"--ssh-key {path} is a private key, which never leaves its owner",
            hint=f"--ssh-key {path}.pub",
        )
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0].split()) < 2:
        raise BadOption(
            f"--ssh-key {path}: got {len(lines)} lines, expected one public key",
            hint="ssh-keygen -t ed25519  makes one",
        )
    return lines[0].strip()


def _read_cloud_init(path: Path) -> str:
    text = _read_text(path, "--cloud-init")
    size = len(text.encode())
    if size > LARGEST_CLOUD_INIT:
        raise BadOption(f"--cloud-init {path}: got {size} bytes, at most {LARGEST_CLOUD_INIT} fit")
    return text


def _read_text(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadOption(f"{option} {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadOption(f"{option} {path} is no UTF-8 text") from None


def _make_name() -> str:
    return f"vm-{os.urandom(3).hex()}"
