"""Read the openb trace as it is published: a list of GPU nodes and lists of pods, as CSV.

Columns and units are those of `alibaba/clusterdata`, cluster-trace-gpu-v2023. The lists have no
memory of cards, so cards have none here and claims ask for none; processors and main memory are
there. Times are not read: the protocol of the paper ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB, WHOLE
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.simulation.traces.columns import TableRow, read_rows

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
#: Columns that are allowed and, but for `gpu_spec` (the models), not read.
MORE_POD_COLUMNS = (
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)

#: Bounds of a cell (thousandths of processors, MiB, cards): beyond them it is a mistake, and sums
#: over a list could leave 64 bits.
_MOST_CPU = 10**7
_MOST_MIB = 1 << 30
_MOST_CARDS = 1024


@dataclass(frozen=True)
class PodList:
    """Pods in the order of the list.

    Equal claims share one shape; `shape_numbers` says which of `shapes` each pod has.
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    shape_numbers: Ints


def read_nodes(path: Path) -> CardTable:
    """Read the GPU nodes of a node list, all free.

    Nodes without a card are left out, as in the paper.

    Raises:
        BadTrace: for a bad table, or one without a card.
    """
    found: list[TableRow] = []
    counts: list[int] = []
    names: list[str] = []
    node_models: list[str] = []
    uuids: list[str] = []
    for row in read_rows(path.name, _read_text(path), NODE_COLUMNS, ()):
        count = row.read_integer("gpu", 0, _MOST_CARDS)
        if not count:
            continue
        found.append(row)
        counts.append(count)
        names.append(_require_text(row, "sn"))
        node_models.append(_require_text(row, "model"))
        uuids += [f"{names[-1]}/{place}" for place in range(count)]
    if not found:
        raise BadTrace(f"{path.name}: none of its nodes has a card", hint="see the column gpu")
    models = tuple(sorted(set(node_models)))
    node = np.repeat(np.arange(len(found)), counts)
    return CardTable(
        uuids=tuple(uuids),
        models=models,
        nodes=tuple(names),
        node_labels=({},) * len(names),
        model=np.repeat([models.index(model) for model in node_models], counts),
        node=node,
        status=np.zeros(len(node), dtype=np.int64),
        memory_bytes=np.zeros(len(node), dtype=np.int64),
        free_milli=np.full(len(node), WHOLE, dtype=np.int64),
        free_bytes=np.zeros(len(node), dtype=np.int64),
        generation=np.ones(len(node), dtype=np.int64),
        hosts=_read_hosts(found),
    )


def read_pods(path: Path) -> PodList:
    """Read the pods of a list, with equal claims as one shape. Raises BadTrace."""
    numbers: dict[Shape, int] = {}
    names: list[str] = []
    shape_numbers: list[int] = []
    for row in read_rows(path.name, _read_text(path), POD_COLUMNS, MORE_POD_COLUMNS):
        names.append(_require_text(row, "name"))
        shape_numbers.append(numbers.setdefault(_read_shape(row), len(numbers)))
    return PodList(tuple(names), tuple(numbers), np.array(shape_numbers, dtype=np.int64))


def _read_hosts(rows: list[TableRow]) -> HostColumns:
    cpu_milli = np.zeros(len(rows), dtype=np.int64)
    memory_bytes = np.zeros(len(rows), dtype=np.int64)
    for number, row in enumerate(rows):
        cpu_milli[number] = row.read_integer("cpu_milli", 0, _MOST_CPU)
        memory_bytes[number] = row.read_integer("memory_mib", 0, _MOST_MIB) * MIB
    # Copies: what is free is changed in place as claims are placed.
    return HostColumns(cpu_milli, memory_bytes, cpu_milli.copy(), memory_bytes.copy())


def _read_shape(row: TableRow) -> Shape:
    cpu_milli = row.read_integer("cpu_milli", 0, _MOST_CPU)
    memory_bytes = row.read_integer("memory_mib", 0, _MOST_MIB) * MIB
    count = row.read_integer("num_gpu", 0, _MOST_CARDS)
    if not count:
        return Shape(0, 0, 0, cpu_milli=cpu_milli, host_bytes=memory_bytes)
    milli = row.read_integer("gpu_milli", 1, WHOLE)
    # `V100M32|V100M16` and `V100M16|V100M32|` are one claim: sorted, they share a shape, and the
    # typical classes of a policy count them together.
    models = "|".join(sorted(set(filter(None, row.get_text("gpu_spec").split("|")))))
    return Shape(milli, 0, count, models or None, cpu_milli=cpu_milli, host_bytes=memory_bytes)


def _require_text(row: TableRow, column: str) -> str:
    text = row.get_text(column)
    if not text:
        raise row.refuse_cell(column, "is empty")
    return text


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = _suggest_list(path)
        raise BadTrace(f"there is no list {path}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadTrace(
            f"{path} cannot be read: {error}", hint="is it a CSV file in UTF-8?"
        ) from error


def _suggest_list(path: Path) -> str:
    """Suggest the table beside it with the nearest name: openb's lists differ by a suffix."""
    others: list[str] = []
    if path.parent.is_dir():
        others = sorted(other.name for other in path.parent.glob("*.csv"))
    near = nearest_model(path.name, others)
    return f"did you mean {path.parent / near}?" if near else f"no such list in {path.parent}"
