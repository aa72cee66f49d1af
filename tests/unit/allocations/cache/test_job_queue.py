"""Jobs that wait, by class: the order in each, who goes first in it, and what is left when the last
one has gone."""

from __future__ import annotations

from gpupool.allocations.arrays.references import MemberReference
from gpupool.allocations.arrays.rest import ArrayRest
from gpupool.allocations.cache.job_queue import HEADS, JobQueue
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.scheduling.snapshot.claims import ClassKey
from tests.support.gang_builders import group, role

ARRAY = "y-4k9x2m7q8w"
HALF = Shape(gpu_milli=500)
NORMAL, HIGH = ClassKey("nlp", 0, HALF, None), ClassKey("nlp", 100, HALF, None)


def queue_of(*jobs: str, key: ClassKey = NORMAL) -> JobQueue:
    queue = JobQueue()
    for at, job in enumerate(jobs):
        queue.add_entry(QueueEntry(job, key, at))
    return queue


def test_a_class_has_its_jobs_in_the_order_of_submission_with_their_ages() -> None:
    (found,) = queue_of("a", "b", "c").build_classes(())
    assert (found.job_ids, found.submitted_ns, found.oldest_ns, found.count) == (
        ("a", "b", "c"),
        (0, 1, 2),
        0,
        3,
    )
    assert (found.tenant, found.priority, found.shape) == ("nlp", 0, HALF)


def test_a_job_that_waits_again_goes_before_those_of_its_class() -> None:
    queue = queue_of("a", "b")
    queue.add_entry(QueueEntry("c", NORMAL, 9), again=True)
    assert queue.build_classes(())[0].job_ids == ("c", "a", "b")
    assert [queue.count_jobs_ahead(job) for job in ("a", "c", "nobody")] == [1, 0, 0]


def test_who_is_to_go_first_does_so_in_the_class_where_it_waits_and_nowhere_else() -> None:
    queue = queue_of("a", "b", "c")
    queue.add_entry(QueueEntry("d", HIGH, 3))
    assert [one.job_ids for one in queue.build_classes(["c", "gone"])] == [("c", "a", "b"), ("d",)]


def test_a_snapshot_names_so_many_heads_and_counts_the_rest() -> None:
    queue = queue_of(*(f"j{n}" for n in range(HEADS + 5)))
    (found,) = queue.build_classes((f"j{HEADS + 4}",))
    assert (len(found.job_ids), found.count, found.job_ids[0]) == (
        HEADS,
        HEADS + 5,
        f"j{HEADS + 4}",
    )


def test_a_class_without_jobs_is_gone() -> None:
    queue = queue_of("a")
    assert queue.remove_job("nobody") is None
    assert queue.remove_job("a") == NORMAL
    assert (len(queue), queue.build_classes(()), queue.build_class("a", ())) == (0, [], None)


def test_a_gang_waits_as_a_whole_and_is_one_claim() -> None:
    whole = Gang("g-1", group("all", role("worker", HALF, 2)), ("m0", "m1"))
    key = ClassKey("nlp", 0, HALF, None, "g-1")
    queue = queue_of("single")
    for job in whole.members:
        queue.add_entry(QueueEntry(job, key, 5, whole))
    assert queue.list_claims() == {"single": ("single",), "g-1": ("m0", "m1")}
    found = queue.build_class("m1", ())
    assert found is not None
    assert (found.gang, found.job_ids) == (whole, ("m0", "m1"))


def test_a_class_that_nothing_happened_to_is_the_same_object_in_the_next_snapshot() -> None:
    queue = queue_of("a", "b")
    queue.add_entry(QueueEntry("c", HIGH, 2))
    before = queue.build_classes(())
    queue.add_entry(QueueEntry("d", HIGH, 3))
    after = queue.build_classes(())
    assert after[0] is before[0]
    assert after[1].job_ids == ("c", "d")


def test_who_goes_first_in_one_snapshot_does_not_do_so_in_the_next() -> None:
    queue = queue_of("a", "b")
    assert [queue.build_classes(first)[0].job_ids for first in ((), ("b",), ())] == [
        ("a", "b"),
        ("b", "a"),
        ("a", "b"),
    ]


def test_every_change_of_a_class_is_in_the_next_snapshot() -> None:
    queue = queue_of("a", "b")
    queue.add_entry(QueueEntry(ARRAY, NORMAL, 2, rest=ArrayRest(ARRAY, 3, 0)))
    seen = [queue.build_classes(())[0]]
    for gone in ("a", str(MemberReference(ARRAY, 1)), ARRAY):
        queue.remove_job(gone)
        seen.append(queue.build_classes(())[0])
    assert [one.count for one in seen] == [5, 4, 3, 1]
    queue.clear()
    assert queue.build_classes(()) == []


def test_a_plan_is_about_the_jobs_that_waited_when_it_was_made() -> None:
    queue = queue_of()
    queue.add_entry(QueueEntry("a", NORMAL, 0), 4)
    queue.add_entry(QueueEntry("b", NORMAL, 1), 6)
    queue.add_entry(QueueEntry("c", NORMAL, 2, planned=5), 7)
    found = {job: queue.find_class_key(job, planned=5) for job in ("a", "b", "c")}
    assert found == {"a": NORMAL, "b": None, "c": NORMAL}
    assert queue.find_class_key("b") == NORMAL
    assert queue.find_class_key("b", planned=6) == NORMAL


def test_a_member_of_a_rest_is_as_old_as_its_array() -> None:
    queue = queue_of()
    queue.add_entry(QueueEntry(ARRAY, NORMAL, 2, rest=ArrayRest(ARRAY, 3, 0)), 6)
    member = str(MemberReference(ARRAY, 1))
    assert queue.find_class_key(member, planned=5) is None
    assert queue.find_class_key(member, planned=6) == NORMAL


def test_a_queue_that_is_read_again_still_knows_which_jobs_were_planned() -> None:
    queue = queue_of()
    queue.add_entry(QueueEntry("a", NORMAL, 0), 4)
    queue.clear()
    queue.add_entry(QueueEntry("a", NORMAL, 0), 9)
    queue.add_entry(QueueEntry("b", NORMAL, 1), 9)
    assert queue.find_class_key("a", planned=5) == NORMAL
    assert queue.find_class_key("b", planned=5) is None
    # A job that left and comes back later is another one.
    queue.build_classes(())
    queue.remove_job("a")
    queue.add_entry(QueueEntry("a", NORMAL, 0), 10)
    assert queue.find_class_key("a", planned=9) is None
