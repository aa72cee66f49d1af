"""The sentences about advice policies, in English and Chinese: what a job asked for and got. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SENTENCES: Final[Mapping[str, tuple[str, str]]] = {
    "applied": (
        (
            "Job {name} asked for {asked} and runs with {share} now, by the advice policy. "
            "To change it: gpupool resize {name}"
        ),
        "作业 {name} 申请了 {asked}，现按建议策略以 {share} 运行。如需更改：gpupool resize {name}",
    ),
    "proposed": (
        (
            "Job {name} asked for {asked}; the advice policy proposes {share}. "
            "To take it: gpupool resize {name}"
        ),
        "作业 {name} 申请了 {asked}；建议策略建议改为 {share}。如需采用：gpupool resize {name}",
    ),
    "returned": (
        "Job {name} has again what it asked for, {asked}: {share} by the advice policy was too little.",
        "作业 {name} 已恢复其申请的 {asked}：建议策略给的 {share} 不够用。",
    ),
    "waits": (
        (
            "Job {name} waits for room for what it asked for, {asked}: {share} by the advice policy "
            "was too little."
        ),
        "作业 {name} 正在等待空间以恢复其申请的 {asked}：建议策略给的 {share} 不够用。",
    ),
}


def find_advice_sentence(data: Mapping[str, Any], *, is_chinese: bool) -> str:
    """Find the sentence of an event; an unknown one says that the share was changed."""
    return _SENTENCES.get(str(data.get("state")), _SENTENCES["applied"])[is_chinese]
