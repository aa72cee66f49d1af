"""The small trace that comes with gpupool, made by its own generator: `gpupool simulate sample` works anywhere."""

from __future__ import annotations

from importlib import resources

from gpupool.simulation.synthetic import Parameters
from gpupool.simulation.trace import Trace, read_csv

PARAMETERS = Parameters(seed=42, days=2, cards=32, load_pct=110, median_seconds=5400, longest_seconds=86400)
"""What it was made with; tools/make_sample_trace.py makes it again."""
NODES = "4x8xH200"


def text() -> str:
    """The file as it is shipped."""
    return resources.files("gpupool.simulation").joinpath("data", "sample.csv").read_text(encoding="utf-8")


def sample() -> Trace:
    return read_csv("sample", text())
