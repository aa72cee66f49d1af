"""Measured use of a production service, as runs: the pods of GenTD26 (Lin et al., SoCC 2025).

The trace is in the public repository alibaba/clusterdata, folder cluster-trace-v2026-GenAI; its files are read where
the reader has them and are no part of this project.
"""

import csv
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gpupool.base.units import GIB, WHOLE
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare

#: The variable with the folder of the trace.
FOLDER = "BENCH_USE_TRACE"
COMPUTE_FILE = "pod_gpu_duty_cycle_anon.csv"
MEMORY_FILE = "pod_gpu_memory_used_bytes_anon.csv"
#: Seconds of one run: a service has no runs of its own, so its hours stand for them.
RUN_SECONDS = 3600
#: A longer pause between two samples was not measured; the trace has one a minute.
LONGEST_GAP_SECONDS = 300.0
#: What a pod holds. The trace does not say it; its highest use of memory is 46.6 GiB.
CARD = RequestedShare(WHOLE, 48 * GIB)


@dataclass
class Pod:
    """What one pod used: (instant, value) in seconds and percent, or bytes."""

    compute: list[tuple[float, float]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)


def find_folder() -> Path | None:
    """Return the folder of the trace; None where the variable names none."""
    named = os.environ.get(FOLDER)
    if not named:
        return None
    folder = Path(named)
    missing = [name for name in (COMPUTE_FILE, MEMORY_FILE) if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{FOLDER}={folder} has no {' and no '.join(missing)}")
    return folder


def read_pods(folder: Path) -> Mapping[str, Pod]:
    """Read what every pod used, by its anonymous address."""
    pods = defaultdict[str, Pod](Pod)
    for at, value, name in _read_samples(folder / COMPUTE_FILE):
        pods[name].compute.append((at, value))
    for at, value, name in _read_samples(folder / MEMORY_FILE):
        pods[name].memory.append((at, value))
    for pod in pods.values():
        pod.compute.sort()
        pod.memory.sort()
    return pods


def _read_samples(path: Path) -> Iterator[tuple[float, float, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield float(row["timestamp_anon"]), float(row["value"]), row["container_ip"]


def cut_runs(name: str, pod: Pod) -> list[MeasuredRun]:
    """Cut a pod's life at whole hours; an hour without a measurement is no run."""
    hours = defaultdict[int, UseHistogram](UseHistogram)
    for (at, percent), (after, _) in pairwise(pod.compute):
        if after - at <= LONGEST_GAP_SECONDS:
            hours[int(at // RUN_SECONDS)].add(round(percent * WHOLE / 100), after - at)
    peaks: dict[int, int] = {}
    for at, size in pod.memory:
        hour = int(at // RUN_SECONDS)
        peaks[hour] = max(peaks.get(hour, 0), int(size))
    runs = list[MeasuredRun]()
    for hour, use in sorted(hours.items()):
        start_s = hour * RUN_SECONDS
        end_s = start_s + RUN_SECONDS
        peak = peaks.get(hour)
        runs.append(MeasuredRun(f"{name}-{hour}", start_s, end_s, CARD, use, peak_bytes=peak))
    return runs


def group_by_pod(pods: Mapping[str, Pod]) -> list[Sequence[MeasuredRun]]:
    """Make every pod a family of its own: its earlier hours advise its later ones."""
    return [cut_runs(name, pod) for name, pod in sorted(pods.items())]


def group_as_service(pods: Mapping[str, Pod]) -> list[Sequence[MeasuredRun]]:
    """Make all pods one family, as replicas of one service are."""
    runs = list[MeasuredRun]()
    for name, pod in sorted(pods.items()):
        runs += cut_runs(name, pod)
    return [runs]
