"""Every decision of simulated lives as a table, and the raw lists beside it: what `checking` reads back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB
from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot import ClassKey, Eviction, Placement
from gpupool.simulation.decision_files import as_csv, parts_text
from gpupool.simulation.nodes import OPTIONAL, REQUIRED
from gpupool.simulation.parallel import Tell
from gpupool.simulation.study import Case, Life, watched
from gpupool.simulation.trace import NS, Node
from gpupool.simulation.world import Job, World

COLUMNS = (
    "policy",
    "seed",
    "time",
    "event",
    "claim",
    "tenant",
    "node",
    "cards",
    "gpu_milli",
    "memory_bytes",
    "cpu_milli",
    "host_bytes",
    "node_free_milli",
    "cards_free_milli",
    "score",
    "parts",
    "reason",
)
"""`gpu_milli` and `memory_bytes` are of each card; what is free is as it was before, on the node and on its `cards`."""

Rows = list[tuple[object, ...]]


class DecisionRecorder:
    """A watcher that keeps a row for each placement, end, eviction and refusal, and for each job left at the end."""

    def __init__(self, policy: str, seed: int, world: World) -> None:
        self._life = policy, seed
        self._world = world
        self.rows: Rows = []

    def moved(self, world: World, before_ns: int, now_ns: int) -> None: ...

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        if refused is not None:
            for job in jobs:
                self._write(now_ns, "refused", job, refused.sentence)

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        run, cards, scored = job.run, self._world.cards, placement.scored
        assert run is not None
        free = cards.free_milli[list(run.rows)] + run.milli
        on_node = int(cards.free_milli[cards.node == job.node].sum()) + sum(run.milli)
        score = ("", "") if scored is None else (scored.score, parts_text(scored))
        why = (on_node, " ".join(map(str, free.tolist())), *score)
        self._write(now_ns, "placed", job, placement.why, why)

    def ended(self, job: Job, now_ns: int) -> None:
        self._write(now_ns, "ended", job, "")

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self._write(now_ns, "evicted", job, eviction.why)

    def left(self, jobs: Iterable[Job], why: Mapping[ClassKey, Rejection], now_ns: int) -> None:
        """Jobs that wait when nothing more can happen, and why."""
        for job in jobs:
            rejection = why.get(job.key)
            self._write(now_ns, "left", job, "" if rejection is None else rejection.sentence)

    def _write(
        self, now_ns: int, event: str, job: Job, reason: str, why: tuple[object, ...] = ("", "", "", "")
    ) -> None:
        head = (*self._life, _seconds(now_ns), event, job.id, job.key.tenant)
        host = job.shape.cpu_milli, job.shape.host_bytes
        self.rows.append((*head, *self._seats(job), *host, *why, reason))

    def _seats(self, job: Job) -> tuple[object, ...]:
        """Node, cards, and what it has of each card."""
        run, cards = job.run, self._world.cards
        if run is None:
            return "", "", 0, 0
        if not run.rows:
            return cards.nodes[job.node], "", 0, 0
        names = [cards.uuids[row].rpartition(":") for row in run.rows]
        return names[0][0], " ".join(place for *_, place in names), run.milli[0], run.sizes[0]


def recorded_life(case: Case, tell: Tell) -> tuple[Case, Life, Rows]:
    """One case with all of its decisions."""
    recorders = list[DecisionRecorder]()

    def recorder(world: World) -> DecisionRecorder:
        recorders.append(DecisionRecorder(case.policy, case.seed, world))
        return recorders[0]

    life = watched(case, tell, recorder)
    return case, life, recorders[0].rows


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
    return as_csv(rows, (*REQUIRED, *OPTIONAL))


def beside(record: Path) -> tuple[Path, Path]:
    """Where the raw lists of claims and nodes stand."""
    return record.with_suffix(".claims.csv"), record.with_suffix(".nodes.csv")


def _seconds(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, NS)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(seconds)
