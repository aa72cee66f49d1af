"""The quota tree in answers: what is held, borrowed, lent and due, and who sees it."""

from __future__ import annotations

from gpupool.wire.people import QuotaIn
from tests.support.house import House


def test_the_tree_says_what_is_held_borrowed_and_lent_and_what_is_due(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=2000))
    house.tenancy.put_quota(
        house.admin, "default", QuotaIn(nominal_milli=500, borrowing_milli=None, cohort="lab")
    )
    blue = QuotaIn(nominal_milli=1000, cohort="lab", weight_milli=3000)
    house.tenancy.tenants.create(house.admin, "blue", blue)
    house.submit(1000, 8)
    house.allocations.placer.run_cycle()
    nodes = {
        node.name: node for node in house.allocations.quotas.describe_quotas(house.admin).nodes
    }
    assert list(nodes) == ["", "lab", "blue", "default"]
    ours, theirs = nodes["default"].limits[0], nodes["blue"].limits[0]
    assert (ours.held, ours.borrowed, ours.lent) == (1000, 500, 0)
    assert (theirs.held, theirs.borrowed, theirs.lent) == (0, 0, 500)
    assert (nodes["default"].due_percent, nodes["blue"].due_percent) == (25.0, 75.0)
    assert nodes["default"].share_percent == 50.0


def test_who_is_no_admin_sees_its_own_node_alone(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=2000))
    house.tenancy.tenants.create(house.admin, "blue", None)
    worker = house.member("worker", "blue")
    assert [node.name for node in house.allocations.quotas.describe_quotas(worker).nodes] == [
        "blue"
    ]
