"""A finished English text in Chinese: exact, by template, by its parts, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.terminal.chinese.translator import Translator, load_translator

TEXTS = {
    "no jobs": "没有任务",
    "{0} waits: {1}": "{0} 等待：{1!}",
    "needs a whole card": "需要一张整卡",
    "needs a whole {0}": "需要一张整的 {0}",
    "needs {0} whole cards": "需要 {0#} 张整卡",
    "needs {0} whole cards on one node": "需要同一节点上的 {0} 张整卡",
    "{0} are free": "空闲 {0#} 张",
    "{0} of {1} stopped": "{1} 中的 {0} 已停止",
}
TERMS = {
    "words": {"running": "运行中", "failed": "失败", "No such file or directory": "没有该文件"},
    "words_of": {"HEALTH": {"failed": "故障"}},
    "titles": {"STATE": "状态", "NAME": "名称", "REASON": "原因"},
    "words_below": ["STATE", "HEALTH"],
    "sentences_below": ["REASON"],
}


@pytest.fixture
def translator() -> Translator:
    return Translator(TEXTS, TERMS, {"GP-2002": "超过租户的配额"})


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("no jobs", "没有任务"),
        ("  no jobs\n", "  没有任务\n"),
        ("gpupool: no jobs\n", "gpupool: 没有任务\n"),
        ("3 of 5 stopped", "5 中的 3 已停止"),
        ("needs 3 whole cards", "需要 3 张整卡"),
        ("needs 3 whole cards on one node", "需要同一节点上的 3 张整卡"),
        ("needs a whole card; 2 are free", "需要一张整卡；空闲 2 张"),
        ("needs a whole H200; 2 are free", "需要一张整的 H200；空闲 2 张"),
        ("needs 3 whole cards; 2 are free", "需要 3 张整卡；空闲 2 张"),
        ("a waits: needs 3 whole cards; 2 are free", "a 等待：需要 3 张整卡；空闲 2 张"),
    ],
)
def test_a_text_is_found_with_its_holes(translator: Translator, english: str, chinese: str) -> None:
    assert translator.translate(english) == chinese


@pytest.mark.parametrize(
    "english",
    [
        "something that nobody wrote",
        "needs so many whole cards",
        "a waits: something that nobody wrote",
        "needs 3 whole cards; something that nobody wrote",
        "",
    ],
)
def test_a_sentence_is_never_in_two_languages(translator: Translator, english: str) -> None:
    assert translator.translate(english) == english


GOLDEN = Path(__file__).parents[3] / "golden"


# The console's translator answers the same: console/src/locales/translator.test.ts.
@pytest.mark.parametrize("name", ["chinese_reasons", "chinese_server"])
def test_what_the_server_says_is_told_clause_by_clause(name: str) -> None:
    texts = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert {english: load_translator().translate(english) for english in texts} == texts


def test_a_name_that_is_a_term_stays_a_name(translator: Translator) -> None:
    assert translator.translate("running waits: no jobs") == "running 等待：没有任务"
    assert translator.translate_cell("NAME", "running") == "running"
    assert translator.translate_cell("STATE", "running") == "运行中"
    assert translator.translate_cell("REASON", "running") == "running"


def test_a_word_means_what_its_title_says(translator: Translator) -> None:
    assert translator.translate_cell("STATE", "failed: no jobs") == "失败：没有任务"
    assert translator.translate_cell("HEALTH", "failed: XID 79") == "故障：XID 79"
    assert (
        translator.translate_cell("STATE", "failed: for some reason") == "failed: for some reason"
    )


def test_the_words_of_the_system_are_translated_in_any_hole(translator: Translator) -> None:
    english = "3 of No such file or directory stopped"
    assert translator.translate(english) == "没有该文件 中的 3 已停止"


def test_a_command_line_in_a_message_stays_as_it_is_typed(translator: Translator) -> None:
    assert translator.translate("no jobs; gpupool up --sim 4xL40S -d") == (
        "没有任务；gpupool up --sim 4xL40S -d"
    )


def test_a_title_without_chinese_stays(translator: Translator) -> None:
    assert translator.translate_title("STATE") == "状态"
    assert translator.translate_title("SHA-256") == "SHA-256"
