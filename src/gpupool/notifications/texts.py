"""The sentences of messages, in English and Chinese. Pure.

Names and reasons are texts of tenants: they come out without control characters, in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from gpupool.notifications.advice_texts import find_advice_sentence
from gpupool.notifications.idle_texts import build_idle_values, find_idle_sentence
from gpupool.notifications.topics import Topic

Language = Literal["en", "zh"]

_MOST_CHARACTERS: Final = 300
_SENTENCES: Final[Mapping[Topic, tuple[str, str]]] = {
    Topic.JOB_ENDED: (
        "Job {name} ended: {state}{because}.",
        "作业 {name} 已结束：{state}{because}。",
    ),
    Topic.JOB_FAILED: (
        "Job {name} ended: {state}{because}.",
        "作业 {name} 已结束：{state}{because}。",
    ),
    Topic.JOB_REQUEUED: (
        "Job {name} is back in the queue{because}.",
        "作业 {name} 已重新排队{because}。",
    ),
    Topic.JOB_WAITING: (
        "Job {name} has waited for {minutes} min. Why: gpupool explain {name}",
        "作业 {name} 已等待 {minutes} 分钟。原因请看：gpupool explain {name}",
    ),
    Topic.BUDGET_CROSSED: (
        "Budget {subject}: {percent} % is spent.",
        "预算 {subject}：已使用 {percent} %。",
    ),
    Topic.CARD_FAILED: ("Card {subject} failed{because}.", "GPU 卡 {subject} 发生故障{because}。"),
    Topic.NODE_SILENT: ("Node {subject} does not answer.", "节点 {subject} 没有响应。"),
    Topic.RESERVATION_ENDED: ("Reservation {subject} ended.", "预留 {subject} 已结束。"),
}
_TITLES: Final = ("gpupool: {count} messages", "gpupool：{count} 条消息")
#: Words for states of jobs; an unknown one stays as it is.
_STATES: Final[Mapping[str, str]] = {
    "done": "完成",
    "failed": "失败",
    "stopped": "已停止",
    "lost": "丢失",
}


def clean_text(text: object) -> str:
    """Return a text in one line, without control characters, of at most 300 characters."""
    line = "".join(one if one.isprintable() else " " for one in str(text))
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def write_sentence(topic: Topic, subject: str, data: Mapping[str, Any], language: Language) -> str:
    """Write the sentence of one occurrence. What its data lack is `--`."""
    values = {
        "subject": clean_text(subject),
        "name": clean_text(data.get("name") or subject),
        "state": _translate_state(data.get("state"), language),
        "because": _write_reason(data, language),
        "minutes": clean_text(data.get("minutes", "--")),
        "percent": clean_text(data.get("percent", "--")),
    }
    is_chinese = language == "zh"
    if topic is Topic.JOB_IDLE:
        for key in ("share", "command"):
            values[key] = clean_text(data.get(key) or "--")
        values |= build_idle_values(data, is_chinese=is_chinese)
        return find_idle_sentence(data, is_chinese=is_chinese).format_map(values)
    if topic is Topic.JOB_ADVISED:
        for key in ("asked", "share"):
            values[key] = clean_text(data.get(key) or "--")
        return find_advice_sentence(data, is_chinese=is_chinese).format_map(values)
    return _SENTENCES[topic][is_chinese].format_map(values)


def write_title(sentences: Sequence[str], language: Language) -> str:
    """Write the title of a message: its one sentence, or how many there are."""
    if len(sentences) == 1:
        return sentences[0]
    return _TITLES[language == "zh"].format(count=len(sentences))


def _translate_state(state: object, language: Language) -> str:
    word = "--" if state is None else clean_text(state)
    return _STATES.get(word, word) if language == "zh" else word


def _write_reason(data: Mapping[str, Any], language: Language) -> str:
    reason = clean_text(data.get("reason") or data.get("health_reason") or "")
    code = data.get("exit_code")
    if code and reason in ("", f"exit code {code}"):
        reason = clean_text(f"退出码 {code}" if language == "zh" else f"exit code {code}")
    if not reason:
        return ""
    return f"（{reason}）" if language == "zh" else f" ({reason})"
