"""Labels that an agent is given for its nodes."""

from __future__ import annotations

import pytest

from gpupool.agent.labels import parse_labels
from gpupool.base.errors import BadOption


def test_a_label_is_every_node_s_or_one_s() -> None:
    found = parse_labels(["zone=z1", "b:rack=r2", "url=http://x:1/=y"], ["a", "b"])
    assert found == {
        "a": {"zone": "z1", "url": "http://x:1/=y"},
        "b": {"zone": "z1", "rack": "r2", "url": "http://x:1/=y"},
    }


@pytest.mark.parametrize("text", ["rack", "=r1", "c:rack=r1", "a:=r1"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="is no label of a, b"):
        parse_labels([text], ["a", "b"])


def test_a_default_sharing_that_no_node_can_have_is_refused() -> None:
    assert parse_labels(["b:gpupool.dev/sharing=burst"], ["a", "b"])["a"] == {}
    with pytest.raises(BadOption, match="a node's default promises compute"):
        parse_labels(["b:gpupool.dev/sharing=offline"], ["a", "b"])
