"""A submission names its network and the security groups in it."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadName, BadOption
from gpupool.client.network_join import make_network_join


def test_a_network_is_named_with_its_groups_or_alone() -> None:
    assert make_network_join("lab", []) == {"name": "lab"}
    assert make_network_join("lab", ["web"]) == {"name": "lab", "security_groups": ["web"]}
    assert make_network_join("lab", [], "10.0.0.9") == {"name": "lab", "address": "10.0.0.9"}


def test_an_address_is_of_either_family_or_one_of_each() -> None:
    six = "fd12:3456:789a::9"
    assert make_network_join("lab", [], six) == {"name": "lab", "address6": six}
    both = {"name": "lab", "address": "10.0.0.9", "address6": six}
    assert make_network_join("lab", [], f"10.0.0.9,{six}") == both
    assert make_network_join("lab", [], f"{six},10.0.0.9") == both
    for text in ("10.0.0.9,10.0.0.8", f"{six},{six}", "10.0.0.9,"):
        with pytest.raises(BadOption, match="two addresses of one kind") as refused:
            make_network_join("lab", [], text)
        assert "one IPv6 address" in refused.value.hint


def test_groups_without_a_network_and_bad_names_are_refused() -> None:
    with pytest.raises(BadOption, match="web without a network"):
        make_network_join(None, ["web"])
    with pytest.raises(BadOption, match=r"10.0.0.9 without a network"):
        make_network_join(None, [], "10.0.0.9")
    with pytest.raises(BadName):
        make_network_join("lab", ["a b"])
