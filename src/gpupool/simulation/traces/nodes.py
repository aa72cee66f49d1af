"""Read the machines of a simulated pool: a description as for `gpupool up --sim`, or a table.

The table's columns are those of the openb trace: `sn`, `gpu` (cards), `model`, and, where it is
known, `cpu_milli`, `memory_mib` (main memory), `gpu_memory_mib`. `partitioned` = 1 says that a
node's cards are in partition mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB, MIB
from gpupool.model.catalogue import CATALOGUE, find_model
from gpupool.model.partition import PartitionProfile
from gpupool.probes.contract import Machine
from gpupool.probes.mig_tables import format_boards, list_mig_profiles
from gpupool.probes.simulated import parse_sim
from gpupool.simulation.traces.columns import TableRow, read_rows
from gpupool.simulation.traces.trace import TraceNode

REQUIRED = ("sn", "gpu", "model")
OPTIONAL = ("cpu_milli", "memory_mib", "gpu_memory_mib", "partitioned")
#: Memory of a card whose model is not in the catalogue and whose table has no size. With 0, jobs
#: that ask for memory would fit on no such card.
UNKNOWN_MIB = 32 * 1024
#: Cards of one node; a larger cell is a mistake, and would fill the memory.
_MOST_CARDS = 1024


def read_nodes(given: str) -> tuple[TraceNode, ...]:
    """Read the nodes of a table (a `.csv` file) or of a description such as `16x8xH200`.

    Raises:
        BadTrace: for a bad table.
        BadMachine, UnknownModel: for a bad description.
    """
    if given.lower().endswith(".csv"):
        return read_table(given, read_text(given))
    return tuple(convert_machine(machine) for machine in parse_sim(given))


def read_table(name: str, text: str) -> tuple[TraceNode, ...]:
    """Read the nodes of a table.

    Raises:
        BadTrace: for a bad cell, two nodes of one name, or no card at all.
    """
    nodes: dict[str, TraceNode] = {}
    cards = 0
    for row in read_rows(name, text, REQUIRED, OPTIONAL):
        node = _read_node(row)
        if node.name in nodes:
            raise BadTrace(
                f"{name}: two nodes are named {node.name}", hint="give every node a name of its own"
            )
        nodes[node.name] = node
        cards += len(node.cards)
    if not cards:
        raise BadTrace(
            f"{name}: none of its {len(nodes)} nodes has a card", hint="see the column gpu"
        )
    return tuple(nodes.values())


def convert_machine(machine: Machine) -> TraceNode:
    """Convert a described machine to a node of a trace."""
    cards: list[tuple[str, int]] = []
    profiles: dict[int, tuple[PartitionProfile, ...]] = {}
    for place, device in enumerate(machine.devices):
        cards.append((device.model, device.memory_bytes))
        if device.partitioned:
            profiles[place] = device.profiles
    cpu_milli = None if machine.cpu_count is None else machine.cpu_count * 1000
    return TraceNode(machine.name, tuple(cards), cpu_milli, machine.memory_bytes, profiles=profiles)


def read_text(path: str) -> str:
    """Read a file as UTF-8 text. Raises BadTrace where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadTrace(f"{path} cannot be read: {error.strerror}", hint="check the name") from error
    except UnicodeDecodeError as error:
        raise BadTrace(
            f"{path} is no text in UTF-8 (byte {error.start})", hint="is it the right file?"
        ) from error


def _read_node(row: TableRow) -> TraceNode:
    count = row.read_integer("gpu", 0, _MOST_CARDS)
    model = row.get_text("model")
    if count and not model:
        raise row.refuse_cell("model", "is empty on a node with cards")
    memory_bytes = _read_memory_mib(row, model) * MIB
    # -1 tells an empty cell from 0: a node with no processors left takes no job that asks for
    # some, a node of which nothing is known takes every job.
    cpu_milli = row.read_integer("cpu_milli", 0, 10**9, -1)
    host_mib = row.read_integer("memory_mib", 0, GIB, -1)
    profiles: dict[int, tuple[PartitionProfile, ...]] = {}
    if row.read_integer("partitioned", 0, 1, 0):
        profiles = dict.fromkeys(range(count), _read_profiles(row, model))
    return TraceNode(
        # `checking.lists` names a node without a name in the same way.
        row.get_text("sn") or f"line-{row.line}",
        ((model, memory_bytes),) * count,
        None if cpu_milli < 0 else cpu_milli,
        None if host_mib < 0 else host_mib * MIB,
        profiles=profiles,
    )


def _read_profiles(row: TableRow, model: str) -> tuple[PartitionProfile, ...]:
    found = list_mig_profiles(find_model(model, tuple(CATALOGUE)) or model)
    if not found:
        raise row.refuse_cell(
            "partitioned",
            f"what a {model} can be cut into is not known; of these it is: {format_boards()}",
        )
    return found


def _read_memory_mib(row: TableRow, model: str) -> int:
    found = find_model(model, tuple(CATALOGUE)) if model else None
    return row.read_integer(
        "gpu_memory_mib", 1, GIB, CATALOGUE[found].memory_mib if found else UNKNOWN_MIB
    )


@dataclass(frozen=True)
class PoolSize:
    """The size of a pool, for people."""

    nodes: int
    cards: int
    models: tuple[str, ...]


def measure_pool(nodes: tuple[TraceNode, ...]) -> PoolSize:
    """Count nodes and cards, and list the models in the order in which they come."""
    models: dict[str, None] = {}
    cards = 0
    for node in nodes:
        cards += len(node.cards)
        models.update(dict.fromkeys(model for model, _ in node.cards))
    return PoolSize(len(nodes), cards, tuple(models))
