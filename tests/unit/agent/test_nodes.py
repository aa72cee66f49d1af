"""The nodes of an agent while a step needs the driver of their cards closed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent import nodes as agent_nodes
from gpupool.agent.config import AgentConfig
from gpupool.agent.nodes import AgentNodes
from gpupool.base.errors import ProbeSuspended
from gpupool.probes.contract import Machine
from gpupool.probes.nvml.gate import GATE
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.wire.fleet import NodeIn
from tests.unit.agent.pool import POOL_ID


class RealCards(SimulatedProbe):
    """Cards that say they are real; they cannot be read while `suspended`."""

    suspended = False

    def scan(self) -> Machine:
        if self.suspended:
            raise ProbeSuspended("card 0 is reset")
        machine = super().scan()
        devices = tuple(replace(device, simulated=False) for device in machine.devices)
        return replace(machine, simulated=False, devices=devices)


class RecordingApi:
    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> None:
        self.bodies.append(body)

    def close(self) -> None:
        return


def make_nodes(probe: SimulatedProbe, state_dir: Path) -> AgentNodes:
    config = AgentConfig(name="node", pool_id=POOL_ID, owner_uid=1000, owner_gid=1000)
    return AgentNodes(config, {"node": probe}, state_dir, cgroups="", fence_reaction="log")


def test_cards_that_are_not_read_now_stay_as_they_were(tmp_path: Path) -> None:
    probe = RealCards(parse_sim("2xL40S")[0])
    nodes = make_nodes(probe, tmp_path)
    nodes.scan()
    before = nodes.index_devices()
    assert len(before) == 2
    probe.suspended = True
    nodes.scan()
    assert nodes.index_devices() == before


def refuse_description(*_: object) -> NodeIn:
    raise AssertionError("what cards offer cannot be read now")


def test_a_registration_meanwhile_repeats_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(RealCards(parse_sim("1xL40S")[0]), tmp_path)
    api = RecordingApi()
    nodes.scan()
    nodes.register(api)
    over = threading.Event()
    with GATE.suspend("another", "card 1 is reset", over.is_set):
        pass
    monkeypatch.setattr(agent_nodes, "describe_node", refuse_description)
    nodes.register(api)
    over.set()
    assert api.bodies[0] == api.bodies[1]
