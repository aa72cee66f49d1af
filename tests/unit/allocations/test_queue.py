"""Jobs that wait, by class: the order in each, who goes first in it, and what is left when the last one has gone."""

from __future__ import annotations

from gpupool.allocations.queue import HEADS, JobQueue
from gpupool.allocations.waiting import Queued
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.scheduling.snapshot import ClassKey
from tests.support.gang_builders import group, role

HALF = Shape(gpu_milli=500)
NORMAL, HIGH = ClassKey("nlp", 0, HALF, None), ClassKey("nlp", 100, HALF, None)


def queue_of(*jobs: str, key: ClassKey = NORMAL) -> JobQueue:
    queue = JobQueue()
    for at, job in enumerate(jobs):
        queue.put(Queued(job, key, at))
    return queue


def test_a_class_has_its_jobs_in_the_order_of_submission_with_their_ages() -> None:
    (found,) = queue_of("a", "b", "c").classes(())
    assert (found.heads, found.heads_ns, found.oldest_ns, found.count) == (("a", "b", "c"), (0, 1, 2), 0, 3)
    assert (found.tenant, found.priority, found.shape) == ("nlp", 0, HALF)


def test_a_job_that_waits_again_goes_before_those_of_its_class() -> None:
    queue = queue_of("a", "b")
    queue.put(Queued("c", NORMAL, 9), again=True)
    assert queue.classes(())[0].heads == ("c", "a", "b")
    assert [queue.position(job) for job in ("a", "c", "nobody")] == [1, 0, 0]


def test_who_is_to_go_first_does_so_in_the_class_where_it_waits_and_nowhere_else() -> None:
    queue = queue_of("a", "b", "c")
    queue.put(Queued("d", HIGH, 3))
    assert [one.heads for one in queue.classes(["c", "gone"])] == [("c", "a", "b"), ("d",)]


def test_a_snapshot_names_so_many_heads_and_counts_the_rest() -> None:
    queue = queue_of(*(f"j{n}" for n in range(HEADS + 5)))
    (found,) = queue.classes((f"j{HEADS + 4}",))
    assert (len(found.heads), found.count, found.heads[0]) == (HEADS, HEADS + 5, f"j{HEADS + 4}")


def test_a_class_without_jobs_is_gone() -> None:
    queue = queue_of("a")
    assert queue.remove("nobody") is None
    assert queue.remove("a") == NORMAL
    assert (len(queue), queue.classes(()), queue.class_of("a", ())) == (0, [], None)


def test_a_gang_waits_as_a_whole_and_is_one_claim() -> None:
    whole = Gang("g-1", group("all", role("worker", HALF, 2)), ("m0", "m1"))
    key = ClassKey("nlp", 0, HALF, None, "g-1")
    queue = queue_of("single")
    for job in whole.members:
        queue.put(Queued(job, key, 5, whole))
    assert queue.claims() == {"single": ("single",), "g-1": ("m0", "m1")}
    found = queue.class_of("m1", ())
    assert found is not None
    assert (found.gang, found.heads) == (whole, ("m0", "m1"))
