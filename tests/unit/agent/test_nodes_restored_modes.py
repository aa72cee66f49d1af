"""Cards that lost MIG mode at a boot get it back before they are handed out."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.config import AgentConfig
from gpupool.agent.facts import list_device_facts
from gpupool.agent.nodes import AgentNodes
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.model.device import CardMode
from gpupool.model.topology import Topology
from gpupool.probes.contract import Machine
from gpupool.probes.nvml.gate import GATE
from tests.support.mig_cards import CARDS, MigHost
from tests.support.mig_fixtures import host, mig_library

__all__ = ["host", "mig_library"]


class HostProbe:
    """The two cards of the host as they are now; the other verbs of a probe are not asked."""

    def __init__(self, host: MigHost) -> None:
        self._host = host

    def scan(self) -> Machine:
        return Machine("n0", (self._host.make_device(0), self._host.make_device(1)), Topology())


@pytest.fixture
def nodes(host: MigHost, tmp_path: Path) -> Iterator[AgentNodes]:
    """The first card was switched to MIG mode, and a boot lost it; the second was never switched."""
    for card in host.state.cards:
        card.current = card.pending = 0
    switch = MigModeSwitch(host.driver, host.files)
    assert switch.enter(host.make_device(), tmp_path) is None
    host.reboot()
    yield AgentNodes(
        AgentConfig("n0", "pool", 0, 0),
        {"n0": HostProbe(host)},  # type: ignore[dict-item]
        tmp_path,
        cgroups="none",
        fence_reaction="kill",
        mig_switch=switch,
    )
    with GATE.suspend("end of the test", "", lambda: True):
        pass  # closes the library, whose files end with this test


def list_modes(nodes: AgentNodes) -> list[tuple[CardMode, int]]:
    return [(one.mode, len(one.profiles)) for one in nodes.index_devices().values()]


def test_a_card_is_in_mig_mode_again_at_the_first_scan(nodes: AgentNodes, host: MigHost) -> None:
    nodes.scan()
    (first, _), (second, _) = list_modes(nodes)
    assert (first, second) == (CardMode.MIG, CardMode.PLAIN)
    assert [host.state.cards[number].current for number in (0, 1)] == [1, 0]


def test_a_card_that_cannot_get_it_back_holds_nothing_until_it_can(
    nodes: AgentNodes, host: MigHost, caplog: pytest.LogCaptureFixture
) -> None:
    host.card.hidden_holder = 1
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nodes.scan()
    device = nodes.index_devices()[CARDS[0]]
    facts = list_device_facts(device)
    assert (facts["partitioned"], facts["mode"]) == (True, "mig"), "no share is placed there"
    assert "profiles" not in facts, "and no partition either"
    assert caplog.text.count("is not in MIG mode yet") == 1, "the same reason is told once"
    before = nodes.read_registered()
    host.card.hidden_holder = 0
    nodes.scan()
    assert nodes.read_registered() != before, "the agent registers it again"
    assert list_modes(nodes)[0] == (CardMode.MIG, 7)
    assert host.card.current == 1


def test_a_card_whose_leave_was_cut_off_shows_the_mode_until_it_is_over(
    nodes: AgentNodes, host: MigHost, tmp_path: Path
) -> None:
    nodes.scan()
    record = tmp_path / "modes" / f"{CARDS[0]}.json"
    document = json.loads(record.read_text())
    host.card.current = host.card.pending = 0
    record.write_text(json.dumps({**document, "leaving": True}))
    nodes.scan()
    assert list_modes(nodes)[0] == (CardMode.MIG, 0), "so the server's switch goes on"
    assert MigModeSwitch(host.driver, host.files).leave(host.make_device(), tmp_path) is None
    nodes.scan()
    assert list_modes(nodes)[0][0] is CardMode.PLAIN
    assert not record.exists()
