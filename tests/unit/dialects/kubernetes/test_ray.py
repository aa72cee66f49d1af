"""Pods of Ray clusters: two clusters of one template are two gangs."""

from __future__ import annotations

from gpupool.dialects.contract import GangHint
from tests.unit.dialects.pods import claim_of, pod


def test_a_gang_has_the_name_of_its_cluster_as_well() -> None:
    labels = {"gpupool.dev/gang": "tune", "ray.io/cluster": "tune-x7k2p", "ray.io/group": "workers"}
    made = pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/gang-size": "3"}, labels)
    assert claim_of(made).hints.gang == GangHint("tune-tune-x7k2p", None, 3)


def test_without_our_label_it_is_no_gang() -> None:
    made = pod({"gpupool.dev/gpus": 1}, {"gpupool.dev/gang-size": "3"}, {"ray.io/cluster": "tune"})
    assert claim_of(made).hints.gang is None
