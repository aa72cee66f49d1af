"""Facts about nodes: from a file, from labels."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from gpupool.base.errors import BadManifest
from gpupool.dialects.facts import MEANINGS, UNKNOWN, NodeFacts, add_label_facts, read_facts


def test_every_fact_is_documented() -> None:
    assert {one.name for one in fields(NodeFacts)} == set(MEANINGS)


def test_a_file_says_facts_and_labels() -> None:
    given = {
        "card_memory": "80GiB",
        "volcano_memory_factor": 10,
        "schedulers": ["mine"],
        "labels": {"tke.cloud.tencent.com/qgpu-schedule-policy": "bs"},
    }
    assert read_facts(given) == NodeFacts(
        card_memory=80 << 30,
        volcano_memory_factor=10,
        schedulers=("mine",),
        qgpu_policy="burst-share",
    )
    assert read_facts(None) == UNKNOWN


def test_what_is_said_goes_before_a_label() -> None:
    known = NodeFacts(replicas=4)
    assert (
        add_label_facts({"cloud.google.com/gke-max-shared-clients-per-gpu": "8"}, known).replicas
        == 4
    )
    assert (
        add_label_facts({"cloud.google.com/gke-max-shared-clients-per-gpu": "many"}).replicas
        is None
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"card_memry": "80GiB"}, "'card_memry' is no fact about a node"),
        ({"card_memory": 80}, "card_memory: 80 bytes"),
        ({"hami_memory_factor": 0}, "hami_memory_factor: 0 is no number from 1"),
        ({"hami_memory_factor": True}, "hami_memory_factor: True is no number"),
        ({"qgpu_policy": "fair"}, "qgpu_policy: 'fair' is not known"),
        ({"labels": []}, None),
        ({"labels": 3}, "labels are a mapping"),
        ([1], "node facts are a mapping"),
    ],
)
def test_what_is_no_fact_is_refused(given: Any, message: str | None) -> None:
    if message is None:
        assert read_facts(given) == UNKNOWN
        return
    with pytest.raises(BadManifest, match=message):
        read_facts(given)
