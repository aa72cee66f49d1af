"""The machines of a simulated pool: a description as `gpupool up --sim` takes it, or a table of nodes.

The table's columns are those of the openb trace: `sn`, `gpu` (cards), `model`, and, where it is known, `cpu_milli`,
`memory_mib` (main memory), `gpu_memory_mib`; `partitioned` says that a node's cards are in partition mode (1). What a
simulation runs on is decided here; how it runs is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB, MIB
from gpupool.model.catalogue import CATALOGUE, find_model
from gpupool.model.partition import PartitionProfile
from gpupool.probes.contract import Machine
from gpupool.probes.mig_tables import boards_text, mig_profiles
from gpupool.probes.simulated import parse_sim
from gpupool.simulation.columns import Row, rows
from gpupool.simulation.trace import Node

REQUIRED = ("sn", "gpu", "model")
OPTIONAL = ("cpu_milli", "memory_mib", "gpu_memory_mib", "partitioned")
UNKNOWN_MIB = 32 * 1024
"""Memory of a card whose model nobody knows and whose table does not say: it matters to jobs that ask for memory."""
_MOST_CARDS = 1024


def read_nodes(given: str) -> tuple[Node, ...]:
    """The nodes of a table (a `.csv` file) or of a description. Raises BadTrace, BadMachine, UnknownModel."""
    if given.lower().endswith(".csv"):
        return read_table(given, read_text(given))
    return tuple(of_machine(machine) for machine in parse_sim(given))


def read_table(name: str, text: str) -> tuple[Node, ...]:
    """The nodes of a table. Raises BadTrace."""
    found = tuple(_node(row) for row in rows(name, text, REQUIRED, OPTIONAL))
    names = [node.name for node in found]
    if len(set(names)) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise BadTrace(f"{name}: two nodes are named {twice}", hint="give every node a name of its own")
    if not any(node.cards for node in found):
        raise BadTrace(f"{name}: none of its {len(found)} nodes has a card", hint="see the column gpu")
    return found


def of_machine(machine: Machine) -> Node:
    """A described machine as a node of a trace."""
    cards = tuple((device.model, device.memory_bytes) for device in machine.devices)
    cpu = None if machine.cpu_count is None else machine.cpu_count * 1000
    profiles = {place: device.profiles for place, device in enumerate(machine.devices) if device.partitioned}
    return Node(machine.name, cards, cpu, machine.memory_bytes, profiles=profiles)


def read_text(path: str) -> str:
    """A file's text. Raises BadTrace where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadTrace(f"{path} cannot be read: {error.strerror}", hint="check the name") from error
    except UnicodeDecodeError as error:
        raise BadTrace(f"{path} is no text in UTF-8 (byte {error.start})", hint="is it the right file?") from error


def _node(row: Row) -> Node:
    count, model = row.integer("gpu", 0, _MOST_CARDS), row.text("model")
    if count and not model:
        raise row.wrong("model", "is empty on a node with cards")
    known = _size(row, model)
    cpu, host = row.integer("cpu_milli", 0, 10**9, -1), row.integer("memory_mib", 0, GIB, -1)
    return Node(
        row.text("sn") or f"line-{row.line}",
        ((model, known * MIB),) * count,
        None if cpu < 0 else cpu,
        None if host < 0 else host * MIB,
        profiles=dict.fromkeys(range(count), _profiles(row, model)) if row.integer("partitioned", 0, 1, 0) else {},
    )


def _profiles(row: Row, model: str) -> tuple[PartitionProfile, ...]:
    found = mig_profiles(find_model(model, tuple(CATALOGUE)) or model)
    if not found:
        raise row.wrong("partitioned", f"what a {model} can be cut into is not known; of these it is: {boards_text()}")
    return found


def _size(row: Row, model: str) -> int:
    found = find_model(model, tuple(CATALOGUE)) if model else None
    return row.integer("gpu_memory_mib", 1, GIB, CATALOGUE[found].memory_mib if found else UNKNOWN_MIB)


@dataclass(frozen=True)
class Size:
    """Of a pool, in a few words for people."""

    nodes: int
    cards: int
    models: tuple[str, ...]


def size_of(nodes: tuple[Node, ...]) -> Size:
    models = dict.fromkeys(model for node in nodes for model, _ in node.cards)
    return Size(len(nodes), sum(len(node.cards) for node in nodes), tuple(models))
