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
        "作业 train 已结束：失败（its node is lost）。"
    )


def test_texts_of_tenants_come_in_one_line_without_control_characters() -> None:
    assert clean_text("a\nb\x1b[31m\u202ec") == "a b [31m c"
    assert clean_text("x" * 301) == "x" * 299 + "…"
    # A format of ours is not applied to a name.
    assert "{state}" in write_sentence(Topic.JOB_ENDED, "j", {"name": "{state}"}, "en")


def test_a_title_is_the_sentence_or_the_count() -> None:
    assert write_title(["one."], "en") == "one."
    assert write_title(["one.", "two."], "zh") == "gpupool：2 条消息"
