"""Read the small trace that gpupool ships, so that `gpupool simulate sample` works anywhere."""

from __future__ import annotations

from importlib import resources

from gpupool.simulation.traces.synthetic import TraceParameters
from gpupool.simulation.traces.trace import WorkloadTrace, read_csv

#: Parameters of the shipped file; tools/make_sample_trace.py writes the file again from them.
PARAMETERS = TraceParameters(
    seed=42, days=2, cards=32, load_pct=110, median_seconds=5400, longest_seconds=86400
)
#: As many cards as `PARAMETERS` computes the load for.
NODES = "4x8xH200"


def read_sample_text() -> str:
    """Read the file as it is shipped."""
    return (
        resources.files("gpupool.simulation")
        .joinpath("data", "sample.csv")
        .read_text(encoding="utf-8")
    )


def read_sample() -> WorkloadTrace:
    """Read the trace from the package's own data."""
    return read_csv("sample", read_sample_text())
