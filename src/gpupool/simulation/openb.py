"""The openb trace as it is published: a list of GPU nodes and lists of pods, as CSV.

Columns and units are those of `alibaba/clusterdata`, cluster-trace-gpu-v2023. The trace knows no memory of cards, so
cards have none here and claims ask for none; processors and main memory are there. Times are not read: the protocol
of the paper ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB, WHOLE
from gpupool.model.catalogue import nearest_model
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot import Cards, Hosts, Ints
from gpupool.simulation.columns import Row, rows

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
MORE_POD_COLUMNS = ("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")

_MOST_CPU = 10**7
_MOST_MIB = 1 << 30
_MOST_CARDS = 1024


@dataclass(frozen=True)
class Pods:
    """Pods in the order of the list; equal claims share a shape, `of` says which each has."""

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    of: Ints


def read_nodes(path: Path) -> Cards:
    """The GPU nodes of a node list, all free; nodes without a card are left out, as in the paper.

    Raises BadTrace.
    """
    found = [row for row in rows(path.name, _text(path), NODE_COLUMNS, ()) if row.integer("gpu", 0, _MOST_CARDS)]
    if not found:
        raise BadTrace(f"{path.name}: none of its nodes has a card", hint="see the column gpu")
    counts = [row.integer("gpu", 1, _MOST_CARDS) for row in found]
    made = [row.text("model") or _lacking(row, "model") for row in found]
    models = tuple(sorted(set(made)))
    node = np.repeat(np.arange(len(found)), counts)
    names = tuple(row.text("sn") or _lacking(row, "sn") for row in found)
    return Cards(
        uuids=tuple(f"{name}/{place}" for name, count in zip(names, counts, strict=True) for place in range(count)),
        models=models,
        nodes=names,
        node_labels=({},) * len(names),
        model=np.repeat([models.index(model) for model in made], counts),
        node=node,
        status=np.zeros(len(node), dtype=np.int64),
        memory_bytes=np.zeros(len(node), dtype=np.int64),
        free_milli=np.full(len(node), WHOLE, dtype=np.int64),
        free_bytes=np.zeros(len(node), dtype=np.int64),
        generation=np.ones(len(node), dtype=np.int64),
        hosts=_hosts(found),
    )


def read_pods(path: Path) -> Pods:
    """The pods of a list. Raises BadTrace."""
    numbers: dict[Shape, int] = {}
    names, of = list[str](), list[int]()
    for row in rows(path.name, _text(path), POD_COLUMNS, MORE_POD_COLUMNS):
        names.append(row.text("name") or _lacking(row, "name"))
        of.append(numbers.setdefault(_shape(row), len(numbers)))
    return Pods(tuple(names), tuple(numbers), np.array(of, dtype=np.int64))


def _hosts(found: list[Row]) -> Hosts:
    cpu = np.array([row.integer("cpu_milli", 0, _MOST_CPU) for row in found], dtype=np.int64)
    memory = np.array([row.integer("memory_mib", 0, _MOST_MIB) for row in found], dtype=np.int64) * MIB
    return Hosts(cpu, memory, cpu.copy(), memory.copy())


def _shape(row: Row) -> Shape:
    cpu, memory = row.integer("cpu_milli", 0, _MOST_CPU), row.integer("memory_mib", 0, _MOST_MIB) * MIB
    count = row.integer("num_gpu", 0, _MOST_CARDS)
    if not count:
        return Shape(0, 0, 0, cpu_milli=cpu, host_bytes=memory)
    milli = row.integer("gpu_milli", 1, WHOLE)
    models = "|".join(sorted(set(filter(None, row.text("gpu_spec").split("|")))))
    return Shape(milli, 0, count, models or None, cpu_milli=cpu, host_bytes=memory)


def _lacking(row: Row, column: str) -> str:
    raise row.wrong(column, "is empty")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = sorted(other.name for other in path.parent.glob("*.csv")) if path.parent.is_dir() else []
        near = nearest_model(path.name, beside)
        hint = f"did you mean {path.parent / near}?" if near else f"no such list in {path.parent}"
        raise BadTrace(f"there is no list {path}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadTrace(f"{path} cannot be read: {error}", hint="is it a CSV file in UTF-8?") from error
