"""Record every decision of one run by the FGD paper's protocol, a row for each pod.

Rows come in the order of arrival. `checking.protocol` reads them back beside the raw lists. Sums
and the level are those of `results.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.plan import PlacementScore
from gpupool.simulation.replay.seat_chooser import ChosenSeat, SeatChooser
from gpupool.simulation.traces.decision_files import format_parts
from gpupool.simulation.traces.openb import PodList

#: Line `order` of `arrivals` of its run; `gpu_milli` is of each card, sums in thousandths include
#: this pod.
COLUMNS = (
    "policy",
    "seed",
    "order",
    "arrivals",
    "event",
    "claim",
    "pod",
    "node",
    "cards",
    "gpu_milli",
    "cpu_milli",
    "host_bytes",
    "asked_milli",
    "allocated_milli",
    "level",
    "score",
    "parts",
    "reason",
)


class ProtocolRecorder:
    """A listener of `protocol.fill_nodes`.

    `places` are the places of its pods in the list, in the order of arrival.
    """

    def __init__(
        self, policy: str, seed: int, free: FreeCapacity, pods: PodList, places: Sequence[int]
    ) -> None:
        self._life = policy, seed
        self._free = free
        self._pods = pods
        self._places = places
        self._capacity = int(free.milli.sum())
        self._first = free.cards.node.searchsorted(range(len(free.cards.nodes)))
        self._times: Counter[str] = Counter()
        self._asked = 0
        self._allocated = 0
        self.rows: list[tuple[object, ...]] = []

    def on_placement(self, number: int, seat: ChosenSeat, chooser: SeatChooser) -> None:
        shape = self._pods.shapes[number]
        self._allocated += shape.held_milli * shape.count
        # Rows of the pool become places on the node, which is what the raw lists know.
        first = self._first[seat.node]
        cards = " ".join(str(row - first) for row in sorted(seat.rows.tolist()))
        where = self._free.cards.nodes[seat.node], cards
        self._write_row(
            number,
            "placed",
            where,
            chooser.compute_score(number, seat),
            chooser.describe_seat(number, seat),
        )

    def on_drop(self, number: int, chooser: SeatChooser) -> None:
        self._write_row(
            number, "dropped", ("", ""), None, chooser.explain_rejection(number).sentence
        )

    def _write_row(
        self,
        number: int,
        event: str,
        where: tuple[str, str],
        scored: PlacementScore | None,
        reason: str,
    ) -> None:
        shape = self._pods.shapes[number]
        pod = self._pods.names[self._places[len(self.rows)]]
        self._times[pod] += 1
        # Tuning adds pods of the list again: the second arrival of `a` is the claim `a@2`.
        claim = pod if self._times[pod] == 1 else f"{pod}@{self._times[pod]}"
        self._asked += shape.held_milli * shape.count
        asks = shape.held_milli, shape.cpu_milli, shape.host_bytes
        # round(100 * asked / capacity), half up, in integers.
        level = (200 * self._asked + self._capacity) // (2 * self._capacity)
        sums = self._asked, self._allocated, level
        why = ("", "") if scored is None else (scored.score, format_parts(scored))
        order = len(self.rows) + 1, len(self._places)
        self.rows.append(
            (*self._life, *order, event, claim, pod, *where, *asks, *sums, *why, reason)
        )
