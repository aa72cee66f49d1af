"""The sentences about idle jobs, in English and Chinese: what was kept, and how to come back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpupool.base.units import format_instant, format_span

_USUAL: Final = ("Job {name} does not use its share.", "任务 {name} 没有使用其份额。")
_COMES_BACK: Final = (
    "It comes back at its first use if there is room; by hand: {command}",
    "再次使用时，若有空闲资源会自动恢复；手动恢复：{command}",
)
_SENTENCES: Final[Mapping[str, tuple[str, str]]] = {
    "warn": (
        "Job {name} has not used its share ({share}) for {idle}{following}. To stay: {command}",
        "任务 {name} 已有 {idle} 没有使用其份额（{share}）{following}。如需保留：{command}",
    ),
    "shrink": (
        "Job {name} was idle for {idle}: its compute shrinks, its memory stays{following}. "
        + _COMES_BACK[0],
        "任务 {name} 已空闲 {idle}：算力已缩减，显存保留{following}。" + _COMES_BACK[1],
    ),
    "suspend": (
        "Job {name} was idle for {idle} and is suspended; its card memory is kept{following}. "
        + _COMES_BACK[0],
        "任务 {name} 已空闲 {idle}，现已挂起，显存内容已保留{following}。" + _COMES_BACK[1],
    ),
    "stop": (
        "Job {name} was idle for {idle} and is stopped. {saved} Its output: {command}",
        "任务 {name} 已空闲 {idle}，现已停止。{saved}查看输出：{command}",
    ),
    "return": (
        "Job {name} works again and has not got its share back{because}. Try again: {command}",
        "任务 {name} 已恢复使用，但尚未取回其份额{because}。可重试：{command}",
    ),
}
_FOLLOWING: Final[Mapping[str, tuple[str, str]]] = {
    "shrink": ("; its compute is reduced in {time}", "；{time}后将缩减算力"),
    "suspend": ("; it is suspended in {time}", "；{time}后将挂起"),
    "stop": ("; it is stopped in {time}", "；{time}后将停止"),
}
_SAVED: Final = (
    "It said at {time} that its work is saved.",
    "该任务于 {time} 报告其工作已保存。",
)
_UNSAVED: Final = (
    "It never said that its work is saved.",
    "该任务未曾报告其工作已保存。",
)


def find_idle_sentence(data: Mapping[str, Any], *, is_chinese: bool) -> str:
    """Find the sentence of an act; without one it says only that the job is idle."""
    return _SENTENCES.get(str(data.get("act")), _USUAL)[is_chinese]


def build_idle_values(data: Mapping[str, Any], *, is_chinese: bool) -> dict[str, str]:
    """Build the values that the sentences name. What the data lack is `--`."""
    following = ""
    words = _FOLLOWING.get(str(data.get("next_act")))
    if words is not None:
        following = words[is_chinese].format(time=_write_span(data.get("next_seconds")))
    saved = _UNSAVED[is_chinese]
    if isinstance(data.get("saved_ns"), int):
        saved = _SAVED[is_chinese].format(time=format_instant(data["saved_ns"]))
    return {
        "idle": _write_span(data.get("idle_seconds")),
        "following": following,
        "saved": saved,
    }


def _write_span(seconds: object) -> str:
    if not isinstance(seconds, int):
        return "--"
    # A person needs no seconds of hours.
    return format_span(seconds - seconds % 60 if seconds >= 60 else seconds)
