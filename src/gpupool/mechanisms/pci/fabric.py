"""Partitions of the NVSwitch fabric of an HGX board, for VMs that share the board.

The switches connect fixed sets of cards only. A VM that gets another set has no NVLink, or sees traffic
of its neighbour's cards. So the cards of a claim must be exactly one set. The sets are read from a
file with what `fmpm -l` prints, since a claim must be refused also while the Fabric Manager is down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools, find_program

#: Below the root: the output of `fmpm -l`. A node without it has no shared fabric.
TABLE = "etc/gpupool/fabric-partitions.json"


@dataclass(frozen=True)
class FabricPartition:
    """One set of cards that the switches can connect."""

    identifier: int
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
    try:
        text = (root / TABLE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return parse_partitions(text)


def parse_partitions(text: str) -> tuple[FabricPartition, ...]:
    """Read what `fmpm -l` prints.

    Raises:
        ValueError: it is something else.
    """
    found = []
    try:
        for entry in json.loads(text)["partitionInfo"]:
            addresses = frozenset(shorten_address(one["pciBusId"]) for one in entry["gpuInfo"])
            identifier = int(entry["partitionId"])
            found.append(FabricPartition(identifier, addresses, bool(entry["isActive"])))
    except (KeyError, TypeError) as problem:
        raise ValueError(f"not a list of fabric partitions: {problem!r}") from problem
    return tuple(found)


def match_partition(
    partitions: Iterable[FabricPartition], addresses: Iterable[str]
) -> FabricPartition | None:
    """Return the partition that has exactly these cards."""
    wanted = frozenset(addresses)
    return next((one for one in partitions if one.addresses == wanted), None)


def explain_partitions(root: Path, addresses: Iterable[str]) -> str:
    """Return why cards cannot be given to one VM, for people; empty when they can."""
    try:
        partitions = read_partitions(root)
    except ValueError as damage:
        return f"{root / TABLE}: {damage}: write it anew with fmpm -l"
    wanted = frozenset(addresses)
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


def _switch(tools: OperationTools, partition: int, *, active: bool) -> None:
    tools.run_program("fmpm", ["-a" if active else "-d", str(partition)])
    if _read_active(tools, partition) is not active:
        word = "active" if active else "inactive"
        raise OperationFailure(f"fabric partition {partition} did not become {word}")


def _read_active(tools: OperationTools, partition: int) -> bool:
    output = tools.run_program("fmpm", ["-l"])
    try:
        partitions = parse_partitions(output)
    except ValueError as problem:
        raise OperationFailure(f"fmpm -l printed something else: {problem}") from problem
    for one in partitions:
        if one.identifier == partition:
            return one.active
    raise OperationFailure(f"the fabric has no partition {partition}")


def _format_partition(partition: FabricPartition) -> str:
    return f"partition {partition.identifier} ({', '.join(sorted(partition.addresses))})"
