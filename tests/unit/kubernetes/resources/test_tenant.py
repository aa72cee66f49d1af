"""Which quota tree is in force, however the objects came in, and what those are told that are not
taken."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.resources.tenant import TenantRegistry, TenantSpec, build_tree, find_problem
from gpupool.model.quota import UNLIMITED, QuotaLimit
from tests.support.kube_builders import tenant
from tests.unit.kubernetes.resources.test_gpu_node import check


def listed(*found: dict[str, Any]) -> TenantRegistry:
    made = TenantRegistry()
    for one in found:
        made.note_tenant(one, False)
    made.mark_listed()
    made.judge_tree()
    return made


def note(tenants: TenantRegistry, found: dict[str, Any], gone: bool = False) -> bool:
    tenants.note_tenant(found, gone)
    return tenants.judge_tree()


def gpu(nominal: str, **more: str) -> dict[str, dict[str, str]]:
    return {"gpu": {"nominal": nominal, **more}}


def test_cards_are_counted_in_thousandths_memory_in_bytes_and_cells_whole() -> None:
    spec = tenant(
        "a", limits={"gpu": {"nominal": "2.5", "borrowing": 1}, "memory": {"nominal": "8Gi"}}
    )["spec"]
    spec["limits"] |= {"gpu:h200": {"nominal": "500m", "lending": "0"}, "node": {"nominal": "2"}}
    assert dict(TenantSpec.from_json(spec).limits) == {
        "gpu": QuotaLimit(2500, 1000),
        "gpu:H200": QuotaLimit(500, None, 0),
        "memory": QuotaLimit(8 << 30),
        "node": QuotaLimit(2),
    }


def test_what_is_kept_in_a_status_is_read_back_and_fits_the_definition() -> None:
    wish = TenantSpec.from_json(
        tenant("a", "top", ["x", "w"], weight=1.5, limits=gpu("2.125", lending="1"))["spec"]
    )
    assert TenantSpec.from_json(wish.to_json()) == wish
    schema = crds()[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    written = wish.to_json()
    assert set(written) <= set(schema["properties"]["inForce"]["properties"])
    check(
        {**written, "weight": None},
        {**schema["properties"]["inForce"], "properties": _without_weight(schema)},
    )


def _without_weight(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema["properties"]["inForce"]["properties"], "weight": {}}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"cpu": {"nominal": "1"}}, "'cpu' is nothing that is limited"),
        ({"memory:H200": {"nominal": "1"}}, "'memory:H200' is nothing that is limited"),
        ({"gpu": {"nominal": "2 cards"}}, "is no quantity"),
        ({"gpu": {"nominal": "-1"}}, "nominal -1 of gpu"),
        ({"gpu": {"nominal": "0.0001"}}, "thousandths of a card"),
        ({"node": {"nominal": "1.5"}}, "whole cells"),
        ({"gpu": {"borrowing": "1"}}, "no nominal part"),
        ({"gpu:a": {"nominal": "1"}, "gpu:A": {"nominal": "1"}}, "limited twice"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(GpupoolError, match=said):
        TenantSpec.from_json({"limits": limits})


def test_who_has_others_below_it_is_a_cohort_and_its_own_namespaces_hang_there() -> None:
    found = listed(
        tenant("top", None, ["shared"], limits=gpu("4")),
        tenant("a", "top", ["x"], limits=gpu("3"), weight=2),
    )
    tree = found.tree
    assert set(tree.cohorts) == {"top"}
    assert tree.cohorts["top"].quota.nominal_milli == 4000
    assert (tree.tenants["top"].parent, tree.tenants["top"].quota) == ("top", UNLIMITED)
    assert (tree.tenants["a"].parent, tree.tenants["a"].weight_milli) == ("top", 2000)
    assert tree.tenant_of == {"shared": "top", "x": "a"}


def test_more_below_than_above_is_told_with_the_numbers_and_changes_nothing() -> None:
    found = listed(
        tenant("top", limits=gpu("4")), tenant("a", "top", limits=gpu("2")), tenant("b", "top")
    )
    before = found.tree
    assert not note(found, tenant("b", "top", limits=gpu("2.5")))
    assert found.tree == before
    said = "top is guaranteed 4 gpu, those in it 4.5: a 2, b 2.5"
    assert [str(found.refusal(name)).count(said) for name in ("top", "a", "b")] == [1, 1, 1]
    assert note(found, tenant("b", "top", limits=gpu("2")))
    assert found.refusal("b") is None


def test_a_cycle_is_told_to_all_in_it_and_to_nobody_else() -> None:
    found = listed(tenant("a"), tenant("b", "a"), tenant("c"))
    note(found, tenant("a", "b"))
    assert "a tenant below itself" in str(found.refusal("a"))
    assert found.refusal("b") is not None
    assert found.refusal("c") is None
    assert found.in_force["a"].parent is None


def test_a_namespace_has_one_owner() -> None:
    found = listed(tenant("a", None, ["x"]), tenant("b", None, ["y"]))
    note(found, tenant("b", None, ["x", "y"]))
    assert "namespace x is listed by a and by b" in str(found.refusal("b"))
    assert found.tree.tenant_of == {"x": "a", "y": "b"}


def test_a_child_that_comes_before_its_parent_counts_when_the_parent_is_there() -> None:
    found = listed()
    assert not note(found, tenant("a", "top"))
    assert "there is no such Tenant" in str(found.refusal("a"))
    assert note(found, tenant("top"))
    assert found.refusal("a") is None


def test_nothing_is_judged_before_all_are_listed() -> None:
    found = TenantRegistry()
    found.note_tenant(tenant("a", "top"), False)
    assert not found.judge_tree()
    found.note_tenant(tenant("top"), False)
    found.mark_listed()
    assert found.judge_tree()
    assert set(found.in_force) == {"a", "top"}


def test_an_object_that_cannot_be_read_keeps_its_limits_and_stops_nobody_else() -> None:
    found = listed(tenant("a", limits=gpu("2")), tenant("b"))
    note(found, tenant("a", limits=gpu("two")))
    assert isinstance(found.refusal("a"), GpupoolError)
    assert note(found, tenant("b", limits=gpu("1")))
    assert found.refusal("b") is None
    assert dict(found.in_force["a"].limits) == {"gpu": QuotaLimit(2000)}


def test_a_new_leader_that_finds_a_bad_tree_goes_on_from_what_was_in_force() -> None:
    kept = TenantSpec.from_json(tenant("a", limits=gpu("2"))["spec"]).to_json()
    bad = {**tenant("a", "nobody", limits=gpu("9")), "status": {"inForce": kept}}
    found = listed(bad, tenant("new"))
    assert set(found.in_force) == {"a"}
    assert dict(found.in_force["a"].limits) == {"gpu": QuotaLimit(2000)}
    assert found.refusal("new") is not None


def test_a_parent_that_is_deleted_stays_in_force_until_its_children_are_mended() -> None:
    found = listed(tenant("top", limits=gpu("2")), tenant("a", "top"))
    assert not note(found, tenant("top"), gone=True)
    assert "top" in found.in_force
    assert found.refusal("a") is not None
    assert note(found, tenant("a"))
    assert set(found.in_force) == {"a"}


def test_of_a_tree_that_was_put_together_from_two_the_first_owner_has_a_namespace() -> None:
    wishes = {name: TenantSpec(namespaces=("x",)) for name in ("b", "a")}
    assert find_problem(wishes) is not None
    assert build_tree(wishes).tenant_of == {"x": "a"}


def test_a_refusal_says_what_to_write_instead() -> None:
    with pytest.raises(BadOption) as refused:
        TenantSpec.from_json({"limits": {"cards": {}}})
    assert "gpu:H200" in refused.value.hint


def test_a_spec_that_the_answer_to_a_status_has_is_news_when_the_watch_reports_it() -> None:
    tenants = listed(tenant("vision", limits=gpu("2")))
    changed = tenant("vision", limits=gpu("4"))
    changed["status"] = {"waiting": 1}
    tenants.note_status("vision", changed)
    assert tenants.known["vision"].status == {"waiting": 1}
    assert tenants.note_tenant(changed, False)


def test_the_answer_to_a_status_brings_back_no_tenant_that_is_gone() -> None:
    tenants = listed(tenant("vision"))
    answer = tenant("vision")
    tenants.note_tenant(answer, True)
    tenants.note_status("vision", answer)
    assert tenants.known == {}
    new = tenant("vision")
    new["metadata"]["uid"] = "another"
    tenants.note_tenant(new, False)
    tenants.note_status("vision", {**answer, "status": {"waiting": 1}})
    assert tenants.known["vision"].status == {}


def test_a_weight_above_nothing_is_never_rounded_to_nothing() -> None:
    """Tenants of weight 0 come before all others."""
    assert TenantSpec.from_json({"weight": 0.0001}).weight_milli == 1
    assert TenantSpec.from_json({"weight": 0}).weight_milli == 0
