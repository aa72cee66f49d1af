"""What each machine of a mirror copies, from where to where."""

from __future__ import annotations

import pytest

from gpupool.agent.network.mirroring.mirror_watch import make_path
from gpupool.agent.network.mirroring.switch_mirrors import MirrorTunnel
from gpupool.wire.network.mirrors import MirrorWork

WORK = MirrorWork(
    key="m-aaaaaaaaaa",
    interface="copies",
    source="n-ssssssssss",
    target="n-tttttttttt",
    direction="both",
    source_tunnel="192.0.2.1",
    target_tunnel="192.0.2.2",
    tunnel_key=0xFF0001,
)


@pytest.mark.parametrize(
    ("direction", "is_from", "is_to"),
    [("both", True, True), ("in", False, True), ("out", True, False)],
)
def test_the_first_switch_chooses_the_direction(direction: str, is_from: bool, is_to: bool) -> None:
    work = WORK.model_copy(update={"direction": direction})
    first = make_path(work, "source")
    assert (first.source, first.output) == ("gpssssssssss", "gxaaaaaaaaaa")
    assert (first.is_from, first.is_to) == (is_from, is_to)
    second = make_path(work, "target")
    assert (second.source, second.output) == ("gxaaaaaaaaaa", "gmaaaaaaaaaa")
    assert (second.is_from, second.is_to) == (True, False)


def test_both_ends_of_a_tunnel_have_one_number_and_each_other() -> None:
    assert make_path(WORK, "source").tunnel == MirrorTunnel("gxaaaaaaaaaa", "192.0.2.2", 0xFF0001)
    assert make_path(WORK, "target").tunnel == MirrorTunnel("gxaaaaaaaaaa", "192.0.2.1", 0xFF0001)
    assert make_path(WORK, "whole").tunnel is None
