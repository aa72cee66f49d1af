"""The sentences of messages, in English and Chinese. Pure.

Names and reasons are texts of tenants: they come out without control characters, in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from gpupool.base.units import format_instant
from gpupool.notifications.advice_texts import find_advice_sentence
from gpupool.notifications.idle_texts import build_idle_values, find_idle_sentence
from gpupool.notifications.topics import Topic

Language = Literal["en", "zh"]

_MOST_CHARACTERS: Final = 300
_SENTENCES: Final[Mapping[Topic, tuple[str, str]]] = {
    Topic.JOB_ENDED: (
        "Job {name} ended: {state}{because}.",
        "任务 {name} 已结束：{state}{because}。",
    ),
    Topic.JOB_FAILED: (
        "Job {name} ended: {state}{because}.",
        "任务 {name} 已结束：{state}{because}。",
    ),
    Topic.JOB_REQUEUED: (
        "Job {name} is back in the queue{because}.",
        "任务 {name} 已重新排队{because}。",
    ),
    Topic.JOB_PLACED: (
        "Job {name} got its cards on {node} and starts.",
        "任务 {name} 已获得 {node} 上的卡，正在启动。",
    ),
    Topic.JOB_STARTED: ("Job {name} runs.", "任务 {name} 已开始运行。"),
    Topic.JOB_RETRIED: (
        "Attempt {attempt} of job {name} ended: {state}{because}; it is tried again.",
        "任务 {name} 的第 {attempt} 次尝试已结束：{state}{because}；将再次尝试。",
    ),
    Topic.JOB_MOVED: (
        "Job {name} was moved to other cards, on {node}.",
        "任务 {name} 已迁移到 {node} 上的其他卡。",
    ),
    Topic.JOB_HANDED_OVER: (
        "Job {name} of a user that left belongs to {owner} now.",
        "离职用户的任务 {name} 现归 {owner} 所有。",
    ),
    Topic.PROMISE_MOVED: (
        "The promised start of job {name} moved from {before} to {after}.",
        "任务 {name} 的承诺开始时间由 {before} 改为 {after}。",
    ),
    Topic.SCHEDULE_PAUSED: (
        "Schedule {subject} is paused{because}. Go on: gpupool schedule resume {subject}",
        "定时任务 {subject} 已暂停{because}。恢复：gpupool schedule resume {subject}",
    ),
    Topic.SCHEDULE_FAILED: (
        "Schedule {subject} submitted no job: {outcome}{because}.",
        "定时任务 {subject} 未能提交任务：{outcome}{because}。",
    ),
    Topic.TOKEN_EXPIRING: (
        "Token {name} of the service account {user} expires at {at}.",
        "服务账号 {user} 的令牌 {name} 将于 {at} 到期。",
    ),
    Topic.RESERVATION_BEGINS: (
        "Reservation {name} begins at {at}.",
        "预留 {name} 将于 {at} 开始。",
    ),
    Topic.JOB_WAITING: (
        "Job {name} has waited for {minutes} min. Why: gpupool explain {name}",
        "任务 {name} 已等待 {minutes} 分钟。原因请看：gpupool explain {name}",
    ),
    Topic.JOB_HANDED_OVER: (
        "{what} {name} of {earlier} belongs to {to} now; handed over by {by}.",
        "{what} {name} 原属 {earlier}，现归 {to} 所有；由 {by} 移交。",
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
#: Words for what is handed over.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "job": ("Job", "作业"),
    "array": ("Array", "作业数组"),
    "gang": ("Gang", "作业组"),
    "schedule": ("Schedule", "定时任务"),
    "reservation": ("Reservation", "预留"),
}
#: Words for states of jobs; an unknown one stays as it is.
_STATES: Final[Mapping[str, str]] = {
    "done": "完成",
    "failed": "失败",
    "stopped": "已停止",
    "lost": "丢失",
}
#: Words for outcomes of a schedule's instant.
_OUTCOMES: Final[Mapping[str, str]] = {"missed": "错过时刻", "refused": "提交被拒绝"}


def clean_text(text: object) -> str:
    """Return a text in one line, without control characters, of at most 300 characters."""
    line = "".join(one if one.isprintable() else " " for one in str(text))
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def write_sentence(topic: Topic, subject: str, data: Mapping[str, Any], language: Language) -> str:
    """Write the sentence of one occurrence. What its data lack is `--`."""
    values = {
        "subject": clean_text(subject),
        "name": clean_text(data.get("name") or subject),
        "state": _translate(data.get("state"), _STATES, language),
        "because": _write_reason(data, language),
        "minutes": clean_text(data.get("minutes", "--")),
        "percent": clean_text(data.get("percent", "--")),
        "node": clean_text(data.get("node") or "--"),
        "attempt": clean_text(data.get("attempt", "--")),
        "owner": clean_text(data.get("owner") or data.get("to") or "--"),
        "user": clean_text(data.get("user") or "--"),
        "outcome": _translate(data.get("outcome"), _OUTCOMES, language),
        "before": _write_instant(data.get("before_ns")),
        "after": _write_instant(data.get("after_ns")),
        "at": _write_instant(data.get("at_ns")),
    }
    is_chinese = language == "zh"
    if topic is Topic.JOB_HANDED_OVER:
        words = _KINDS.get(str(data.get("what")), ("--", "--"))
        parties = {key: clean_text(data.get(key) or "--") for key in ("to", "by")}
        values |= {"what": words[is_chinese], "earlier": clean_text(data.get("from") or "--")}
        values |= parties
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


def _translate(value: object, words: Mapping[str, str], language: Language) -> str:
    word = "--" if value is None else clean_text(value)
    return words.get(word, word) if language == "zh" else word


def _write_instant(instant_ns: object) -> str:
    return format_instant(instant_ns) if isinstance(instant_ns, int) else "--"


def _write_reason(data: Mapping[str, Any], language: Language) -> str:
    reason = clean_text(data.get("reason") or data.get("health_reason") or data.get("text") or "")
    code = data.get("exit_code")
    if code and reason in ("", f"exit code {code}"):
        reason = clean_text(f"退出码 {code}" if language == "zh" else f"exit code {code}")
    if not reason:
        return ""
    return f"（{reason}）" if language == "zh" else f" ({reason})"
