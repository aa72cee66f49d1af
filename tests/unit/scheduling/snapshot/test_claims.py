"""Waiting classes and their keys, and the demand without partitions."""

from __future__ import annotations

from dataclasses import replace

from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.claims import ClassKey, ExpectedDemand, WaitingClass
from tests.support.gang_builders import gang, role
from tests.support.scheduling_builders import shape, waiting, whole


def test_a_class_that_is_built_from_a_key_has_that_key() -> None:
    key = ClassKey("nlp", 7, shape(), 60, "", "demo", True, True)
    made = WaitingClass.build(key, ["b", "a"], 5, [20, 10], None)
    assert made.key == key
    assert (made.job_ids, made.count) == (("b", "a"), 5)
    assert (made.oldest_ns, made.submitted_ns) == (10, (20, 10))


def test_gangs_of_one_shape_are_classes_of_their_own() -> None:
    one, other = (gang(name, role("worker", whole(), 2)) for name in ("g", "h"))
    assert one.key != other.key
    assert one.key == replace(one, job_ids=(), count=0).key
    assert waiting("a").key == waiting("b", at=9).key


def test_demand_without_partitions_keeps_each_other_shape_with_its_count() -> None:
    cut = Shape(142, None, profile="1g.18gb")
    demand = ExpectedDemand((shape(), cut, whole()), (5.0, 3.0, 1.0), returned_pct=40)
    assert demand.without_partitions == ExpectedDemand((shape(), whole()), (5.0, 1.0), 40)
    plain = ExpectedDemand((shape(),), (2.0,))
    assert plain.without_partitions is plain
