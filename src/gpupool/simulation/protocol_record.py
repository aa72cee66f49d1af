"""Every decision of one run by the FGD paper's protocol, a line for each pod in the order of arrival.

What `checking_protocol` reads back beside the raw lists. Sums and the level are those of `results.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Scored
from gpupool.simulation.choosing import Chooser, Seat
from gpupool.simulation.decision_files import parts_text
from gpupool.simulation.openb import Pods

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
"""Line `order` of `arrivals` of its run; `gpu_milli` is of each card, sums in thousandths include this pod."""


class Recorder:
    """Hears `protocol.fill`; `places` are those of its pods in the list, in the order of arrival."""

    def __init__(self, policy: str, seed: int, free: Free, pods: Pods, places: Sequence[int]) -> None:
        self._life = policy, seed
        self._free, self._pods, self._places = free, pods, places
        self._capacity = int(free.milli.sum())
        self._first = free.cards.node.searchsorted(range(len(free.cards.nodes)))
        self._times: Counter[str] = Counter()
        self._asked = self._allocated = 0
        self.rows: list[tuple[object, ...]] = []

    def placed(self, number: int, seat: Seat, chooser: Chooser) -> None:
        shape = self._pods.shapes[number]
        self._allocated += shape.held_milli * shape.count
        cards = " ".join(str(row - self._first[seat.node]) for row in sorted(seat.rows.tolist()))
        where = self._free.cards.nodes[seat.node], cards
        self._write(number, "placed", where, chooser.scored(number, seat), chooser.why(number, seat))

    def dropped(self, number: int, chooser: Chooser) -> None:
        self._write(number, "dropped", ("", ""), None, chooser.refusal(number).sentence)

    def _write(self, number: int, event: str, where: tuple[str, str], scored: Scored | None, reason: str) -> None:
        shape = self._pods.shapes[number]
        pod = self._pods.names[self._places[len(self.rows)]]
        self._times[pod] += 1
        claim = pod if self._times[pod] == 1 else f"{pod}@{self._times[pod]}"
        self._asked += shape.held_milli * shape.count
        asks = shape.held_milli, shape.cpu_milli, shape.host_bytes
        level = (200 * self._asked + self._capacity) // (2 * self._capacity)
        sums = self._asked, self._allocated, level
        why = ("", "") if scored is None else (scored.score, parts_text(scored))
        order = len(self.rows) + 1, len(self._places)
        self.rows.append((*self._life, *order, event, claim, pod, *where, *asks, *sums, *why, reason))
