"""Names of objects tell their tenants apart."""

from __future__ import annotations

from gpupool.kubernetes.networks.kube_ovn import KINDS, find_owner, name_network


def test_two_tenants_never_share_a_name() -> None:
    assert name_network("a-b", "c") != name_network("a", "b-c")
    assert name_network("a") != name_network("a", "a")


def test_an_object_without_the_label_is_not_ours() -> None:
    assert find_owner({"metadata": {}}) is None
    assert find_owner({"metadata": {"labels": {"gpupool.dev/tenant": "a"}}}) == "a"


def test_each_kind_has_a_path_and_a_definition() -> None:
    assert len({kind.path for kind in KINDS}) == len(KINDS)
    assert KINDS[0].definition_path.endswith("/customresourcedefinitions/vpcs.kubeovn.io")
