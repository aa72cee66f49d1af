"""A claim without a card sees no card of its node, and every card's device file is closed to it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from gpupool.mechanisms.contract import AllocationView, JobSeat
from gpupool.mechanisms.no_card import NoCard
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.probes.simulated import parse_sim

CARDS = tuple(
    replace(card, device_paths=(f"/dev/nvidia{card.index}",))
    for card in parse_sim("2xL40S")[0].devices
)
VIEW = AllocationView(
    pool="pool",
    allocation="al-1",
    generation=1,
    job="job-1",
    tenant="team",
    sharing="fixed",
    granted=(),
    node_devices=CARDS,
    seat=JobSeat(uid=os.getuid(), gid=os.getgid(), own_pool=os.getuid() != 0),
)


def test_every_card_is_hidden_and_closed(tmp_path: Path) -> None:
    prepared = NoCard().prepare(VIEW, tmp_path)
    assert prepared.env["CUDA_VISIBLE_DEVICES"] == ""
    assert prepared.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert prepared.deny_nodes == ("/dev/nvidia0", "/dev/nvidia1")
    assert (prepared.pci, prepared.mediated_devices, prepared.mounts) == ((), (), ())


def test_it_offers_nothing_for_a_card() -> None:
    assert NoCard().describe_offer(CARDS[0], HostFacts()) is None
    assert NoCard().list_profiles(CARDS[0]) == ()
