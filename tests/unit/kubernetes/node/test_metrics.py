"""What a scrape of an agent tells: of a pod from its bind on, of a shared card to each container
its own part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpupool.base.units import GIB, MIB
from gpupool.kubernetes.node.held_seats import HeldSeat, read_held_seat
from gpupool.kubernetes.node.metrics import NodeMetrics, NodeObservation
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.mechanisms.regions import FenceDeviceUsage
from gpupool.model.allocation import Seat
from gpupool.model.device import DeviceHealth, DeviceUsage
from gpupool.probes.simulated import parse_sim

(MACHINE,) = parse_sim("2xL40S", "n0")
FIRST, SECOND = MACHINE.devices
BUSY = DeviceUsage(
    utilization_percent=80, memory_used_bytes=20 * GIB, power_watts=200, temperature_celsius=60
)
USED = FenceDeviceUsage(
    committed_bytes=3 * GIB,
    pending_bytes=GIB,
    gpu_ns=2 * 10**9,
    wait_ns=10**9,
    throttled_ns=10**8,
    launches=7,
    refusals=1,
)


def entry(pod: str, seat: Seat) -> Entry:
    return Entry(f"uid-{pod}", "team", pod, "main", (seat,), "nlp")


def share(pod: str, counted: dict[str, FenceDeviceUsage] | None) -> HeldSeat:
    seat = Seat(FIRST.uuid, 300, 8 * GIB)
    return read_held_seat(entry(pod, seat), seat, FIRST, counted)


def whole(pod: str) -> HeldSeat:
    seat = Seat(SECOND.uuid, 1000, SECOND.memory_bytes)
    return read_held_seat(entry(pod, seat), seat, SECOND, None)


@dataclass
class Scrape:
    """What is told; `values` by name, of one pod."""

    seen: NodeObservation
    now: float = 100.0
    dcgm: bool = True
    findings: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(
            NodeMetrics(
                lambda: self.seen, lambda: self.now, dcgm=self.dcgm, findings=lambda: self.findings
            )
        )

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def values(self, pod: str) -> dict[str, float]:
        families = text_string_to_metric_families(self.text())
        samples = (sample for family in families for sample in family.samples)
        return {one.name: one.value for one in samples if one.labels.get("pod") == pod}

    def labels(self, name: str, pod: str) -> dict[str, str]:
        families = text_string_to_metric_families(self.text())
        return next(
            s.labels
            for f in families
            for s in f.samples
            if s.name == name and s.labels.get("pod") == pod
        )


def look(*held: HeldSeat) -> NodeObservation:
    return NodeObservation("n0", MACHINE.devices, held, {FIRST.uuid: BUSY, SECOND.uuid: BUSY})


def test_a_share_is_told_from_its_bind_on_with_its_limits() -> None:
    found = Scrape(look(share("new", {})), dcgm=False).values("new")
    assert found == {
        "gpupool_container_limit_milli": 300,
        "gpupool_container_limit_bytes": 8 * GIB,
        "gpupool_container_memory_used_bytes": 0,
        "gpupool_container_memory_reserved_bytes": 0,
        "gpupool_container_gpu_seconds_total": 0,
        "gpupool_container_wait_seconds_total": 0,
        "gpupool_container_throttled_seconds_total": 0,
        "gpupool_container_launches_total": 0,
        "gpupool_container_refusals_total": 0,
    }


@pytest.mark.parametrize(("driver_bytes", "used"), [(None, 3), (GIB, 3), (5 * GIB, 5)])
def test_memory_is_what_the_driver_counts_where_that_is_more(
    driver_bytes: int | None, used: int
) -> None:
    """The driver counts programs that avoid the fence; the fence counts managed memory."""
    seat = Seat(FIRST.uuid, 300, 8 * GIB)
    one = read_held_seat(entry("own", seat), seat, FIRST, {FIRST.uuid: USED}, driver_bytes)
    found = Scrape(look(one)).values("own")
    assert found["gpupool_container_memory_used_bytes"] == used * GIB
    assert found["DCGM_FI_DEV_FB_USED"] == used * GIB / MIB


def test_a_share_tells_what_its_fence_counts() -> None:
    scrape = Scrape(look(share("busy", {FIRST.uuid: USED})))
    found = scrape.values("busy")
    assert found["gpupool_container_memory_used_bytes"] == 3 * GIB
    assert found["gpupool_container_memory_reserved_bytes"] == 4 * GIB
    assert (
        found["gpupool_container_gpu_seconds_total"],
        found["gpupool_container_launches_total"],
    ) == (2, 7)
    assert (found["DCGM_FI_DEV_FB_USED"], found["DCGM_FI_DEV_FB_FREE"]) == (
        3 * GIB / MIB,
        5 * GIB / MIB,
    )
    assert scrape.labels("gpupool_container_gpu_seconds_total", "busy") == {
        "namespace": "team",
        "pod": "busy",
        "container": "main",
        "tenant": "nlp",
        "UUID": FIRST.uuid,
        "gpu": "0",
        "modelName": FIRST.product,
        "Hostname": "n0",
    }


def test_a_whole_card_tells_what_the_card_says_and_counts_nothing() -> None:
    found = Scrape(look(whole("alone"))).values("alone")
    assert found["gpupool_container_memory_used_bytes"] == 20 * GIB
    assert "gpupool_container_gpu_seconds_total" not in found
    assert (found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"], found["DCGM_FI_DEV_GPU_UTIL"]) == (0.8, 80)


def test_each_container_of_a_shared_card_has_its_own_part_of_its_time() -> None:
    scrape = Scrape(look(share("one", {FIRST.uuid: USED}), share("other", {})))
    assert scrape.values("one")["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == 0
    scrape.now += 10
    more = FenceDeviceUsage(gpu_ns=USED.gpu_ns + 3 * 10**9)
    scrape.seen = look(share("one", {FIRST.uuid: more}), share("other", {}))
    assert scrape.values("one")["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == pytest.approx(0.3)
    assert scrape.values("one")["DCGM_FI_DEV_GPU_UTIL"] == 30
    assert scrape.values("other")["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == 0


def test_names_of_others_are_told_only_where_it_is_asked_for() -> None:
    assert "DCGM" not in Scrape(look(share("one", {})), dcgm=False).text()


def test_what_nobody_measured_is_absent() -> None:
    blind = NodeObservation("n0", MACHINE.devices, [whole("alone")], {})
    assert set(Scrape(blind).values("alone")) == {
        "gpupool_container_limit_milli",
        "gpupool_container_limit_bytes",
    }


NAMES = Path(__file__).parents[3] / "golden" / "metrics_names_node.txt"


def test_the_names_are_a_contract() -> None:
    ill = replace(FIRST, health=DeviceHealth.FAILED, health_reason="off the bus (XID 79)")
    held = [share("one", {FIRST.uuid: USED}), whole("alone")]
    seen = NodeObservation("n0", [ill, SECOND], held, {FIRST.uuid: BUSY, SECOND.uuid: BUSY})
    scrape = Scrape(seen, findings={("team/one/main", "time"): 2})
    families = text_string_to_metric_families(scrape.text())
    lines = {
        f"{sample.name} {family.type} {{{','.join(sorted(sample.labels))}}}"
        for family in families
        for sample in family.samples
    }
    assert "\n".join(sorted(lines)) + "\n" == NAMES.read_text()
