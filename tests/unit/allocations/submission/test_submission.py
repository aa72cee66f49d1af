"""A checked submission: its names, and how its jobs wait."""

from __future__ import annotations

from dataclasses import replace

from gpupool.allocations.submission.submission import Submission, SubmissionPart
from gpupool.model.claim import Shape

HALF = Shape(500)
JOB = Submission(
    tenant_id=1,
    tenant="nlp",
    project="default",
    user_id=7,
    parts=(SubmissionPart(HALF, ["true"], 0, 1),),
    priority=0,
    max_seconds=None,
    seconds=None,
    names=("train",),
    array=None,
    public_ids=("j-1",),
    attached=False,
    launch={},
)
ARRAY = replace(
    JOB,
    parts=(SubmissionPart(HALF, ["true"], 0, 5),),
    names=("train.0",),
    array="train",
    array_id="y-4k9x2m7q8w",
)


def test_rename_changes_the_name_of_a_job_or_of_all_members() -> None:
    assert (JOB.rename("other").names, JOB.rename("other").array) == (("other",), None)
    members = replace(ARRAY, names=("train.0", "train.1")).rename("other")
    assert (members.array, members.names) == ("other", ("other.0", "other.1"))


def test_an_array_waits_as_its_first_job_and_the_rest_as_one_entry() -> None:
    first, rest = ARRAY.build_queue_entries(9)
    assert (first.job, first.rest, first.submitted_ns) == ("j-1", None, 9)
    assert rest.rest is not None
    assert (rest.job, rest.rest.following, rest.rest.count) == ("y-4k9x2m7q8w", 1, 4)
    assert first.key == rest.key == ARRAY.class_key


def test_an_array_of_one_has_no_rest() -> None:
    alone = replace(ARRAY, parts=JOB.parts)
    assert [entry.job for entry in alone.build_queue_entries(0)] == ["j-1"]


def test_only_a_runtime_without_a_limit_is_an_estimate() -> None:
    past = replace(JOB, seconds=90)
    limited = replace(past, max_seconds=90)
    assert [one.is_estimated for one in (JOB, past, limited)] == [False, True, False]
    assert [one.class_key.guessed for one in (JOB, past, limited)] == [False, True, False]


def test_the_class_of_a_plan_is_the_class_in_which_it_waits() -> None:
    asked = replace(JOB, seconds=90, reservation="night", preemptible=True, priority=-100)
    waiting = asked.build_waiting_class(5)
    assert waiting.key == asked.class_key
    assert (waiting.count, waiting.oldest_ns, waiting.job_ids) == (1, 5, ("j-1",))
