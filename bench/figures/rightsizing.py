"""Advice on shares judged by the measured use of a production service, beside two simpler methods."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.rows import Row
from bench.use_traces import FOLDER, find_folder, group_as_service, group_by_pod, read_pods
from gpupool.rightsizing.advice import USUAL_RULES
from gpupool.rightsizing.backtest import (
    ADVISED,
    AS_REQUESTED,
    HIGHEST,
    Backtest,
    run_backtest,
)

NAME = "rightsizing"
COMMAND = f"{FOLDER}=DIR python -m bench rightsizing"
#: Percent of the judged time that may be starved: what the percentile of the rules leaves out.
STARVED_LIMIT = 100 - USUAL_RULES.percent


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
        records[name] = describe(found)
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
