"""`gpupool vm list`: the state, the cards and the address of each VM."""

from __future__ import annotations

import argparse
from typing import Any

from gpupool.base.errors import NotFound, VmUnreachable
from gpupool.cli.work.vm_files import is_vm, locate_vm
from gpupool.client.paging import iterate_items
from gpupool.client.transport import Api
from gpupool.model.vm import find_vm_state
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import Row, TableColumn, print_list
from gpupool.terminal.parser import CommandParser, add_output
from gpupool.vm.address import LiveVm, read_live_vm
from gpupool.vm.files import VmFiles, VmRecord

_COLORS = {"running": "green", "waiting": "yellow", "failed": "red", "lost": "red"}
_FIELDS = (
    *("id", "name", "state", "reason", "cards", "devices", "simulated", "network"),
    *("address", "address6"),
    *("accelerator", "emulated", "emulated_why", "cpus", "ram_bytes", "image", "disk", "user"),
)


def register(parser: CommandParser) -> None:
    parser.about = """
    Live VMs, and VMs that have ended and whose disk is kept. DEVICES are in the guest; a simulated card is held by
    the VM, but no guest can see it. ADDRESS is that in its network, else the guest's SSH port on this machine. `--` is
    not known here: the VM is another account's, or on another machine.
    """
    parser.examples = ["gpupool vm list", "gpupool vm list --all -o json"]
    parser.add_argument("-a", "--all", action="store_true", help="also VMs without a disk")
    add_output(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    api = context.api
    rows: list[Row] = []
    for job in iterate_items(api, "jobs", {"all": True}):
        if not is_vm(job):
            continue
        row = describe_vm(api, job)
        if options.all or row["disk"] or job["state"] in ("pending", "starting", "running"):
            rows.append(row)
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=lambda: _FIELDS,
        empty="no VMs",
        color=context.color,
    )
    return 0


def describe_vm(api: Api, job: dict[str, Any]) -> Row:
    """Describe a VM by its job, its record and what its QEMU answers; unknown is None."""
    files = _find_files(api, job)
    record = None if files is None else _read_record(files)
    live = None
    if files is not None and record is not None and job["state"] == "running":
        live = _read_live(files)
    return _build_row(job, files, record, live)


def _build_row(
    job: dict[str, Any], files: VmFiles | None, record: VmRecord | None, live: LiveVm | None
) -> Row:
    return {
        "id": job["id"],
        "name": job["name"],
        "state": str(find_vm_state(job["state"], None if live is None else live.status)),
        "reason": job["reason"],
        "cards": [seat["device"] for seat in job["seats"]],
        "devices": None if record is None else list(record.devices),
        "simulated": job["simulated"],
        "network": job["network"],
        "address": job["address"] or (None if live is None else live.address_text),
        "address6": job["address6"],
        "accelerator": None if record is None else record.accelerator,
        "emulated": None if record is None else record.accelerator != "kvm",
        "emulated_why": None if record is None else record.emulated_why,
        "cpus": None if record is None else record.cpus,
        "ram_bytes": None if record is None else record.ram_bytes,
        "image": None if record is None else record.image,
        "disk": None if files is None else _has_disk(files),
        "user": job["user"],
    }


def _find_files(api: Api, job: dict[str, Any]) -> VmFiles | None:
    try:
        return locate_vm(api, job)
    except NotFound:
        return None


def _read_record(files: VmFiles) -> VmRecord | None:
    try:
        return files.read_record()
    except PermissionError:
        return None


def _has_disk(files: VmFiles) -> bool | None:
    try:
        return files.has_disk()
    except PermissionError:
        return None


def _read_live(files: VmFiles) -> LiveVm | None:
    try:
        return read_live_vm(files.control)
    except VmUnreachable:
        # It ends at this moment, or another command speaks with it: its job's state stands.
        return None


def _describe_state(row: Row) -> str:
    return f"{row['state']} (emulated)" if row["emulated"] else str(row["state"])


def _describe_devices(row: Row) -> str | None:
    if row["devices"]:
        return ", ".join(row["devices"])
    return "none: simulated" if row["simulated"] else None


def _find_color(row: Row) -> str | None:
    return _COLORS.get(row["state"])


COLUMNS = (
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("STATE", _describe_state, color=_find_color),
    TableColumn("CARDS", lambda row: ", ".join(row["cards"]) or None),
    TableColumn("DEVICES", _describe_devices),
    TableColumn("ADDRESS", lambda row: row["address"]),
    TableColumn("CPUS", lambda row: row["cpus"], right=True, wide=True),
    TableColumn("RAM", lambda row: describe_memory(row["ram_bytes"]), right=True, wide=True),
    TableColumn("IMAGE", lambda row: row["image"], wide=True),
    TableColumn("WHY EMULATED", lambda row: row["emulated_why"] or None, wide=True),
)
