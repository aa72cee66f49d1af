"""Advice on shares, and policies that apply it, judged by the measured use of a production service.

Both stand beside two simpler methods: the request as it was, and the highest use of the past.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.rows import Row
from bench.use_traces import FOLDER, find_folder, group_as_service, group_by_pod, read_pods
from gpupool.rightsizing.advice import USUAL_RULES, Confidence
from gpupool.rightsizing.backtest import (
    ADVISED,
    AS_REQUESTED,
    HIGHEST,
    Backtest,
    run_backtest,
)
from gpupool.rightsizing.policy import AdviceBounds, AdviceMode, AdviceTarget
from gpupool.rightsizing.policy_backtest import PolicyResult, run_policy_backtest

NAME = "rightsizing"
COMMAND = f"{FOLDER}=DIR python -m bench rightsizing"
#: Percent of the judged time that may be starved: what the percentile of the rules leaves out.
STARVED_LIMIT = 100 - USUAL_RULES.percent
#: Policies by their names: that of the product without options, with any confidence, and with wide bounds.
POLICIES = {
    "usual": AdviceBounds(AdviceMode.APPLY, AdviceTarget.BOTH),
    "half": AdviceBounds(AdviceMode.APPLY, AdviceTarget.BOTH, confidence=Confidence.LOW),
    "wide": AdviceBounds(
        AdviceMode.APPLY, AdviceTarget.BOTH, most_cut_percent=90, confidence=Confidence.LOW
    ),
}


def run(out: Path) -> list[Row]:
    folder = find_folder()
    if folder is None:
        print(
            f"{NAME}: {FOLDER} names no folder, so nothing is measured; it has to hold the files "
            "pod_gpu_*_anon.csv of alibaba/clusterdata, cluster-trace-v2026-GenAI",
            file=sys.stderr,
        )
        return []
    pods = read_pods(folder)
    rows = list[Row]()
    records: dict[str, object] = {"pods": len(pods)}
    for name, families in (("pod", group_by_pod(pods)), ("service", group_as_service(pods))):
        found = run_backtest(families)
        rows += list_rows(name, found)
        record = dict(describe(found))
        for policy, bounds in POLICIES.items():
            result = run_policy_backtest(families, bounds)
            rows += list_policy_rows(name, policy, result, found)
            record[f"policy {policy}"] = describe_policy(result)
        records[name] = record
    (out / "rightsizing-methods.json").write_text(json.dumps(records, indent=2) + "\n")
    return rows


def list_rows(family: str, found: Backtest) -> list[Row]:
    """Both figures of ours beside both peers; a request as it was saves and starves nothing."""
    ours = found.methods[ADVISED]
    rows = list[Row]()
    for name in (AS_REQUESTED, HIGHEST):
        peer = found.methods[name]
        figures = (
            ("starved time", ours.starved_part, peer.starved_part, STARVED_LIMIT),
            ("saved card-hours", ours.saved_part, peer.saved_part, None),
            ("runs short of memory", ours.short_part, peer.short_part, None),
        )
        for figure, part, peer_part, limit in figures:
            rows.append(
                Row(
                    f"family = {family}: {figure}, peer {name}",
                    "%",
                    _percent(part),
                    COMMAND,
                    peer=_percent(peer_part),
                    peer_command=COMMAND,
                    limit=limit,
                    note=f"{ours.runs} runs judged, {found.unjudged} not",
                )
            )
    return rows


def list_policy_rows(family: str, policy: str, result: PolicyResult, found: Backtest) -> list[Row]:
    """The figures of a policy with its guard beside both peers."""
    rows = list[Row]()
    for name in (AS_REQUESTED, HIGHEST):
        peer = found.methods[name]
        figures = (
            ("starved time", result.starved_part, peer.starved_part, STARVED_LIMIT),
            ("saved card-hours", result.saved_part, peer.saved_part, None),
            ("runs short of memory", result.short_part, peer.short_part, None),
        )
        for figure, part, peer_part, limit in figures:
            rows.append(
                Row(
                    f"family = {family}, policy {policy}: {figure}, peer {name}",
                    "%",
                    _percent(part),
                    COMMAND,
                    peer=_percent(peer_part),
                    peer_command=COMMAND,
                    limit=limit,
                    note=f"{result.changed} of {result.judged} runs changed, "
                    f"{result.returned} got back what they asked for",
                )
            )
    return rows


def describe_policy(result: PolicyResult) -> Mapping[str, object]:
    """All that was counted of a policy, for the record."""
    return {
        "judged": result.judged,
        "changed": result.changed,
        "returned": result.returned,
        "pauses": result.pauses,
        "starved_part": result.starved_part,
        "starved_part_of_changed": result.starved_part_of_changed,
        "short_of_memory": result.short_of_memory,
        "memory_runs": result.memory_runs,
        "requested_hours": result.requested_hours,
        "given_hours": result.given_hours,
        "saved_part": result.saved_part,
    }


def describe(found: Backtest) -> Mapping[str, object]:
    """All that was counted, for the record."""
    rows: dict[str, object] = {"families": found.families, "unjudged": found.unjudged}
    for name, result in found.methods.items():
        rows[name] = {
            "runs": result.runs,
            "starved_part": result.starved_part,
            "starved_runs": result.starved_runs,
            "short_of_memory": result.short_of_memory,
            "memory_runs": result.memory_runs,
            "requested_hours": result.requested_hours,
            "given_hours": result.given_hours,
            "saved_part": result.saved_part,
        }
    return rows


def _percent(part: float | None) -> float:
    if part is None:
        raise ValueError("no run of the trace could be judged")
    return part * 100
