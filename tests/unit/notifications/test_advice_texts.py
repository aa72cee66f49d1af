"""Sentences about advice policies: what was asked, what was given, and that it is back."""

from __future__ import annotations

from gpupool.notifications.texts import write_sentence
from gpupool.notifications.topics import Occurrence, Topic, list_topics

DATA = {"name": "train-7", "asked": "0.50 GPU", "share": "0.25 GPU", "state": "applied"}


def test_a_change_names_what_was_asked_and_what_is_given() -> None:
    assert write_sentence(Topic.JOB_ADVISED, "j-1", DATA, "en") == (
        "Job train-7 asked for 0.50 GPU and runs with 0.25 GPU now, by the advice policy. "
        "To change it: gpupool resize train-7"
    )
    back = {**DATA, "state": "returned"}
    assert "has again what it asked for, 0.50 GPU" in write_sentence(
        Topic.JOB_ADVISED, "j-1", back, "en"
    )
    assert "正在等待" in write_sentence(Topic.JOB_ADVISED, "j-1", {**DATA, "state": "waits"}, "zh")


def test_changes_of_running_jobs_are_of_the_topic() -> None:
    for kind in ("job.advice-applied", "job.advice-returned", "job.advice-return-waits"):
        found = Occurrence("event/1", kind, "j-1", DATA, 1, 1, 1)
        assert list_topics(found) == [Topic.JOB_ADVISED]


def test_a_proposal_is_of_the_topic_for_running_jobs_alone() -> None:
    data = {**DATA, "state": "proposed"}
    found = Occurrence("event/1", "job.advice-proposed", "j-1", data, 1, 1, 1)
    assert list_topics(found) == []
    running = Occurrence(
        "event/1", "job.advice-proposed", "j-1", data | {"is_running": True}, 1, 1, 1
    )
    assert list_topics(running) == [Topic.JOB_ADVISED]
    assert write_sentence(Topic.JOB_ADVISED, "j-1", running.data, "en") == (
        "Job train-7 asked for 0.50 GPU; the advice policy proposes 0.25 GPU. "
        "To take it: gpupool resize train-7"
    )
