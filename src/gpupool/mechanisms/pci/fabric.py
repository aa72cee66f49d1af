"""Partitions of the NVSwitch fabric of an HGX board, for VMs that share the board.

The switches connect fixed sets of cards only. A VM that gets another set has no NVLink, or sees traffic
of its neighbour's cards. So the cards of a claim must be exactly one set.

The Fabric Manager names a card by its module number, not by its place on the bus, and the two have
different orders. What a node needs to know is recorded while the cards have NVIDIA's driver: the
partitions as `fmpm -l` prints them, and the cards' modules as `nvidia-smi -q` prints them. With
vfio-pci a card has no module number, and `fmpm` prints an empty address or `00000000:00:00.0`.

Formats: fmpm.cpp of github.com/NVIDIA/Fabric-Manager-Client; `physicalId` is the "same value as GPU
Module ID" (fmFabricPartitionGpuInfo_t in nv_fm_types.h of the Fabric Manager SDK).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.durable import write_durably
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools, find_program

#: Below the root: the output of `fmpm -l`. A node without it has no shared fabric.
TABLE = "etc/gpupool/fabric-partitions.json"
#: Below the root: the output of `nvidia-smi -q`, of which only addresses and modules are read.
MODULES = "etc/gpupool/fabric-modules.txt"
#: Where the Fabric Manager listens if its option FM_CMD_UNIX_SOCKET_PATH is set as NVIDIA documents
#: it; without the socket `fmpm` connects to 127.0.0.1.
SOCKET = "run/nvidia-fabricmanager/socket"
#: What `fmpm` prints for a card that the Fabric Manager does not see, beside an empty text.
_NO_ADDRESS = "0000:00:00.0"
_CARD_LINE = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
#: "Module ID" up to R550, "Module Id" below "Platform Info" since.
_MODULE_LINE = re.compile(r"^\s+(?:GPU )?Module I[dD]\s*:\s*(\d+)\s*$")


@dataclass(frozen=True)
class FabricPartition:
    """One set of cards that the switches can connect.

    Attributes:
        modules: the cards by module number.
        addresses: the cards by PCI address; fewer than modules where an address is unknown.
    """

    identifier: int
    modules: frozenset[int]
    addresses: frozenset[str]
    active: bool


def shorten_address(address: str) -> str:
    """Return an address as sysfs writes it: NVIDIA's tools use capitals and a domain of 8 digits.

    >>> shorten_address("00000000:1B:00.0")
    '0000:1b:00.0'
    """
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def read_partitions(root: Path) -> tuple[FabricPartition, ...]:
    """Return the recorded partitions; none where the node has no shared fabric.

    Raises:
        ValueError: the file is not what `fmpm -l` prints.
    """
    text = _read_text(root / TABLE)
    if text is None:
        return ()
    return parse_partitions(text, parse_modules(_read_text(root / MODULES) or ""))


def parse_partitions(text: str, modules: Mapping[int, str]) -> tuple[FabricPartition, ...]:
    """Read what `fmpm -l` prints.

    Args:
        text: the output.
        modules: addresses by module number; for others the printed address is used, if there is one.

    Raises:
        ValueError: it is something else.
    """
    found = []
    try:
        for entry in json.loads(text)["partitionInfo"]:
            cards = entry["gpuInfo"]
            found.append(
                FabricPartition(
                    int(entry["partitionId"]),
                    frozenset(int(card["physicalId"]) for card in cards),
                    frozenset(_list_addresses(cards, modules)),
                    bool(entry["isActive"]),
                )
            )
    except (KeyError, TypeError) as problem:
        raise ValueError(f"not a list of fabric partitions: {problem!r}") from problem
    return tuple(found)


def parse_modules(text: str) -> dict[int, str]:
    """Read addresses by module number from what `nvidia-smi -q` prints."""
    found: dict[int, str] = {}
    address = ""
    for line in text.splitlines():
        card = _CARD_LINE.match(line)
        module = _MODULE_LINE.match(line)
        if card is not None:
            address = shorten_address(card[1])
        elif module is not None and address:
            found[int(module[1])] = address
    return found


def match_partition(
    partitions: Iterable[FabricPartition], addresses: Iterable[str]
) -> FabricPartition | None:
    """Return the partition that has exactly these cards."""
    wanted = frozenset(addresses)
    for one in partitions:
        if one.addresses == wanted and len(one.modules) == len(wanted):
            return one
    return None


def explain_partitions(root: Path, addresses: Iterable[str]) -> str:
    """Return why cards cannot be given to one VM, for people; empty when they can."""
    try:
        partitions = read_partitions(root)
    except ValueError as damage:
        return f"{root / TABLE}: {damage}: rewrite it with fmpm -l"
    wanted = frozenset(addresses)
    nameless = [one for one in partitions if len(one.addresses) < len(one.modules)]
    if nameless:
        # A card that is in no known partition may be one of these.
        return (
            f"the addresses of fabric {_format_partition(nameless[0])} are not known: while the cards "
            f"have NVIDIA's driver, write nvidia-smi -q to {root / MODULES}"
        )
    if not any(wanted & one.addresses for one in partitions):
        return ""
    found = match_partition(partitions, wanted)
    if found is None:
        sets = "; ".join(_format_partition(one) for one in partitions)
        return f"its {len(wanted)} cards are no partition of the NVSwitch fabric, which has {sets}"
    if find_program(root, "fmpm") is None:
        return f"fmpm is not installed, so fabric {_format_partition(found)} cannot be activated"
    return ""


def activate_partition(tools: OperationTools, partition: int, record: str) -> None:
    """Connect the cards of a partition, and record whether they were connected."""
    active = _read_active(tools, partition)
    path = Path(record)
    if not path.exists():
        write_durably(path, json.dumps({"active": active}).encode(), mode=0o600)
    if not active:
        _switch(tools, partition, active=True)


def deactivate_partition(tools: OperationTools, partition: int, record: str) -> None:
    """Disconnect the cards of a partition, unless they were connected before."""
    path = Path(record)
    if not path.exists() or json.loads(path.read_text(encoding="utf-8"))["active"]:
        return
    if _read_active(tools, partition):
        _switch(tools, partition, active=False)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _list_addresses(
    cards: Iterable[Mapping[str, Any]], modules: Mapping[int, str]
) -> Iterable[str]:
    for card in cards:
        recorded = modules.get(int(card["physicalId"]))
        printed = card.get("pciBusId") or ""
        if recorded is not None:
            yield recorded
        elif printed and shorten_address(printed) != _NO_ADDRESS:
            yield shorten_address(printed)


def _switch(tools: OperationTools, partition: int, *, active: bool) -> None:
    _run_manager(tools, "-a" if active else "-d", str(partition))
    if _read_active(tools, partition) is not active:
        word = "active" if active else "inactive"
        raise OperationFailure(f"fabric partition {partition} did not become {word}")


def _read_active(tools: OperationTools, partition: int) -> bool:
    output = _run_manager(tools, "-l")
    try:
        partitions = parse_partitions(output, {})
    except ValueError as problem:
        raise OperationFailure(f"fmpm -l printed something else: {problem}") from problem
    for one in partitions:
        if one.identifier == partition:
            return one.active
    raise OperationFailure(f"the fabric has no partition {partition}")


def _run_manager(tools: OperationTools, *arguments: str) -> str:
    socket = tools.root / SOCKET
    way = ["--unix-domain-socket", str(socket)] if socket.exists() else []
    return tools.run_program("fmpm", [*way, *arguments])


def _format_partition(partition: FabricPartition) -> str:
    modules = ", ".join(str(number) for number in sorted(partition.modules))
    cards = ", ".join(sorted(partition.addresses)) or "addresses unknown"
    return f"partition {partition.identifier} (modules {modules}: {cards})"
