"""The sentences of messages, in both languages, whatever a name is."""

from __future__ import annotations

import pytest

from gpupool.notifications.texts import Language, clean_text, write_sentence, write_title
from gpupool.notifications.topics import Topic


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("topic", Topic)
def test_every_topic_has_a_sentence_also_without_data(topic: Topic, language: Language) -> None:
    sentence = write_sentence(topic, "thing-1", {}, language)
    assert "thing-1" in sentence
    assert "{" not in sentence
    assert sentence.isascii() is (language == "en")


def test_a_sentence_says_why() -> None:
    data = {"name": "train", "state": "failed", "reason": "", "exit_code": 3}
    assert write_sentence(Topic.JOB_FAILED, "j-1", data, "en") == (
        "Job train ended: failed (exit code 3)."
    )
    data["reason"] = "its node is lost"
    assert write_sentence(Topic.JOB_FAILED, "j-1", data, "zh") == (
        "任务 train 已结束：失败（its node is lost）。"
    )


def test_a_start_that_moved_and_a_schedule_are_told_with_what_happened() -> None:
    data = {"name": "train", "before_ns": 0, "after_ns": 3600 * 10**9}
    assert write_sentence(Topic.PROMISE_MOVED, "j-1", data, "en") == (
        "The promised start of job train moved from 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z."
    )
    data = {"outcome": "refused", "job": None, "text": "the quota is full"}
    assert write_sentence(Topic.SCHEDULE_FAILED, "nightly", data, "zh") == (
        "定时任务 nightly 未能提交任务：提交被拒绝（the quota is full）。"
    )


def test_texts_of_tenants_come_in_one_line_without_control_characters() -> None:
    assert clean_text("a\nb\x1b[31m\u202ec") == "a b [31m c"
    assert clean_text("x" * 301) == "x" * 299 + "…"
    # A format of ours is not applied to a name.
    assert "{state}" in write_sentence(Topic.JOB_ENDED, "j", {"name": "{state}"}, "en")


def test_a_title_is_the_sentence_or_the_count() -> None:
    assert write_title(["one."], "en") == "one."
    assert write_title(["one.", "two."], "zh") == "gpupool：2 条消息"
