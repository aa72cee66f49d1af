"""Small openb lists for tests of the FGD paper's protocol, and the rows of its records."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from gpupool.simulation.checking.protocol import check_protocol

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,262144,4,T4
bare,96000,262144,0,
"""
Lines = list[dict[str, str]]


def pods() -> str:
    lines = [f"pod-{n:02d},4000,1024,1,{(n % 3 + 1) * 250 if n % 4 else 1000}," for n in range(5)]
    lines += [
        "pod-t4,4000,1024,2,1000,T4",
        "pod-any,1000,1024,1,500,P100|T4",
        "pod-cpu,1000,1024,0,0,",
    ]
    return "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *lines]) + "\n"


def rows(text: str) -> Lines:
    return list(csv.DictReader(io.StringIO(text)))


def rules(record: Lines, results: object = None) -> list[str]:
    return [fault.rule for fault in check_protocol(rows(pods()), rows(NODES), record, results)]  # type: ignore[arg-type]


def first(folder: Path) -> Lines:
    """The lines of the first life."""
    lines = rows((folder / "run.csv").read_text())
    return [line for line in lines if (line["policy"], line["seed"]) == ("default", "42")]
