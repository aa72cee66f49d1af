"""Allocations that no job asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.offers.probe_views import MechanismProbe, build_probe_view
from gpupool.mechanisms.share import CountedShare
from gpupool.mechanisms.whole import WholeCards
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass
from gpupool.probes.simulated import parse_sim

HOST = HostFacts(root=True, own_pool=False, cgroups="v2", machine="/var/machine")
CARD = parse_sim("1xL40S")[0].devices[0]


def test_a_view_is_as_large_as_its_size_and_has_a_cgroup_of_the_node() -> None:
    whole = build_probe_view(CARD, HOST, SizeClass.WHOLE, HostKind.CONTAINER)
    assert whole.granted[0].gpu_milli == 1000
    assert whole.granted[0].memory_bytes == CARD.memory_bytes
    assert (whole.seat.container, whole.cgroups != ()) == (True, True)
    assert whole.machine == Path("/var/machine")
    half = build_probe_view(CARD, replace(HOST, cgroups="none"), SizeClass.ANY, HostKind.VM)
    assert half.granted[0].gpu_milli == 500
    assert half.granted[0].memory_bytes % (1 << 20) == 0
    assert (half.host, half.cgroups) == (HostKind.VM, ())


def test_a_mechanism_is_known_by_what_it_refuses() -> None:
    assert MechanismProbe(CountedShare(), CARD, HOST).find_sizes() is SizeClass.ANY
    whole = MechanismProbe(WholeCards(), CARD, HOST)
    assert whole.find_sizes() is SizeClass.WHOLE
    assert whole.list_sharing(SizeClass.WHOLE) == ("fixed", "burst")
    assert MechanismProbe(CountedShare(), CARD, HOST).list_sharing(SizeClass.ANY) == ()
    assert "granted in part" in whole.explain_refusal(SizeClass.ANY)
    assert whole.explain_refusal(SizeClass.PROFILES) == "no profile of this card is known"
