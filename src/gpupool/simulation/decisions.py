"""Every decision of one simulated life as a table, and the raw lists beside it: what `checking` reads back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB
from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot import Eviction, Placement
from gpupool.simulation.checking import Fault, check
from gpupool.simulation.nodes import OPTIONAL, REQUIRED, read_text
from gpupool.simulation.trace import NS, Node
from gpupool.simulation.world import Job, World

COLUMNS = (
    "time",
    "event",
    "claim",
    "tenant",
    "node",
    "cards",
    "gpu_milli",
    "memory_bytes",
    "node_free_milli",
    "cards_free_milli",
    "reason",
)
"""`gpu_milli` and `memory_bytes` are of each card; what is free is as it was before, on the node and on its `cards`."""


class DecisionRecorder:
    """A watcher that keeps a row for each placement, end, eviction and refusal."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rows: list[tuple[object, ...]] = []

    def moved(self, world: World, before_ns: int, now_ns: int) -> None: ...

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        if refused is not None:
            self.rows += [self._row(now_ns, "refused", job, refused.sentence) for job in jobs]

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        run, cards = job.run, self._world.cards
        assert run is not None
        free = cards.free_milli[list(run.rows)] + run.milli
        on_node = int(cards.free_milli[cards.node == job.node].sum()) + sum(run.milli)
        row = self._row(now_ns, "placed", job, placement.why)
        self.rows.append((*row[:-3], on_node, " ".join(map(str, free.tolist())), placement.why))

    def ended(self, job: Job, now_ns: int) -> None:
        self.rows.append(self._row(now_ns, "ended", job, ""))

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self.rows.append(self._row(now_ns, "evicted", job, eviction.why))

    def _row(self, now_ns: int, event: str, job: Job, reason: str) -> tuple[object, ...]:
        run, cards = job.run, self._world.cards
        if run is None or not run.rows:
            return (_seconds(now_ns), event, job.id, job.key.tenant, "", "", 0, 0, "", "", reason)
        names = [cards.uuids[row].rpartition(":") for row in run.rows]
        places = " ".join(place for *_, place in names)
        held = run.milli[0], run.sizes[0]
        return (_seconds(now_ns), event, job.id, job.key.tenant, names[0][0], places, *held, "", "", reason)


def table(rows: Iterable[Sequence[object]], columns: Sequence[str] = COLUMNS) -> str:
    """As CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def nodes_table(nodes: Iterable[Node]) -> str:
    """The nodes as a raw list, as `--nodes` reads it. Raises BadTrace for a node of several models."""
    rows = []
    for node in nodes:
        if len(set(node.cards)) > 1:
            raise BadTrace(f"{node.name} has cards of several models: a list of nodes cannot say so")
        model, size = node.cards[0] if node.cards else ("", 0)
        cpu = "" if node.cpu_milli is None else node.cpu_milli
        host = "" if node.host_bytes is None else node.host_bytes // MIB
        rows.append((node.name, len(node.cards), model, cpu, host, size // MIB or "", int(bool(node.profiles))))
    return table(rows, (*REQUIRED, *OPTIONAL))


def check_files(claims: str, nodes: str, record: str) -> list[Fault]:
    """What is wrong with a record, by the raw lists alone. Raises BadTrace for what is no such table."""
    read = [list(csv.DictReader(io.StringIO(read_text(path)))) for path in (claims, nodes, record)]
    try:
        return check(*read)
    except (KeyError, ValueError, ArithmeticError) as error:
        raise BadTrace(
            f"{record} cannot be checked with {claims} and {nodes}: {type(error).__name__}: {error}",
            hint="all three are tables with a header; a record and its lists are written by simulate --record",
        ) from error


def beside(record: Path) -> tuple[Path, Path]:
    """Where the raw lists of claims and nodes stand."""
    return record.with_suffix(".claims.csv"), record.with_suffix(".nodes.csv")


def _seconds(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, NS)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")
