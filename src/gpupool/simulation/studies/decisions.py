"""Record every decision of simulated lives as rows, and the raw lists beside them for `checking`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.simulation.replay.parallel import TellProgress
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from gpupool.simulation.studies.study import SimulatedLife, StudyCase, watch_case
from gpupool.simulation.traces.decision_files import format_csv, format_parts
from gpupool.simulation.traces.nodes import OPTIONAL, REQUIRED
from gpupool.simulation.traces.trace import TraceNode

#: `gpu_milli` and `memory_bytes` are of each card; what is free is as it was before, on the node
#: and on its `cards`.
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

DecisionRows = list[tuple[object, ...]]


class DecisionRecorder:
    """A watcher that keeps a row for each placement, end, eviction, refusal and job left over."""

    def __init__(self, policy: str, seed: int, world: SimulatedPool) -> None:
        self._life = policy, seed
        self._world = world
        self.rows: DecisionRows = []

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None: ...

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        if refused is not None:
            for job in jobs:
                self._write_row(now_ns, "refused", job, refused.sentence)

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        run = job.run
        assert run is not None
        cards = self._world.cards
        scored = placement.score
        # The watcher is called after the seats are taken: what was free before is put together
        # again.
        free = cards.free_milli[list(run.rows)] + run.milli
        on_node = int(cards.free_milli[cards.node == job.node].sum()) + sum(run.milli)
        score = ("", "") if scored is None else (scored.score, format_parts(scored))
        why = (on_node, " ".join(map(str, free.tolist())), *score)
        self._write_row(now_ns, "placed", job, placement.why, why)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self._write_row(now_ns, "ended", job, "")

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self._write_row(now_ns, "evicted", job, eviction.why)

    def on_left_waiting(
        self, jobs: Iterable[SimulatedJob], why: Mapping[ClassKey, Rejection], now_ns: int
    ) -> None:
        """Record the jobs that wait when nothing more can happen, and why."""
        for job in jobs:
            rejection = why.get(job.key)
            self._write_row(now_ns, "left", job, "" if rejection is None else rejection.sentence)

    def _write_row(
        self,
        now_ns: int,
        event: str,
        job: SimulatedJob,
        reason: str,
        why: tuple[object, ...] = ("", "", "", ""),
    ) -> None:
        head = (*self._life, _format_seconds(now_ns), event, job.id, job.key.tenant)
        host = job.shape.cpu_milli, job.shape.host_bytes
        self.rows.append((*head, *self._describe_seats(job), *host, *why, reason))

    def _describe_seats(self, job: SimulatedJob) -> tuple[object, ...]:
        """Return node, cards, and what the job has of each card."""
        run = job.run
        cards = self._world.cards
        if run is None:
            return "", "", 0, 0
        if not run.rows:
            return cards.nodes[job.node], "", 0, 0
        places: list[str] = []
        for row in run.rows:
            node, _, place = cards.uuids[row].rpartition(":")
            places.append(place)
        return node, " ".join(places), run.milli[0], run.sizes[0]


def record_life(
    case: StudyCase, tell: TellProgress
) -> tuple[StudyCase, SimulatedLife, DecisionRows]:
    """Simulate one case and record all of its decisions."""
    recorders = list[DecisionRecorder]()

    def recorder(world: SimulatedPool) -> DecisionRecorder:
        recorders.append(DecisionRecorder(case.policy, case.seed, world))
        return recorders[0]

    life = watch_case(case, tell, recorder)
    return case, life, recorders[0].rows


def format_nodes(nodes: Iterable[TraceNode]) -> str:
    """Format the nodes as a raw list that `--nodes` reads.

    Raises:
        BadTrace: for a node with cards of several models, which the list has no column for.
    """
    rows = []
    for node in nodes:
        if len(set(node.cards)) > 1:
            raise BadTrace(
                f"{node.name} has cards of several models: a list of nodes cannot say so"
            )
        model, size = node.cards[0] if node.cards else ("", 0)
        cpu = "" if node.cpu_milli is None else node.cpu_milli
        host = "" if node.host_bytes is None else node.host_bytes // MIB
        rows.append(
            (
                node.name,
                len(node.cards),
                model,
                cpu,
                host,
                size // MIB or "",
                int(bool(node.profiles)),
            )
        )
    return format_csv(rows, (*REQUIRED, *OPTIONAL))


def get_list_paths(record: Path) -> tuple[Path, Path]:
    """Return the paths of the raw lists of claims and nodes."""
    return record.with_suffix(".claims.csv"), record.with_suffix(".nodes.csv")


def _format_seconds(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, NANOS_PER_SECOND)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(seconds)
