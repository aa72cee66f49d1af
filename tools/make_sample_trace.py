"""Makes src/gpupool/simulation/data/sample.csv again; run it after a change of the generator."""

from pathlib import Path

from gpupool.simulation.traces.sample import PARAMETERS
from gpupool.simulation.traces.synthetic import generate_trace
from gpupool.simulation.traces.trace import write_csv

TO = Path(__file__).parents[1] / "src" / "gpupool" / "simulation" / "data" / "sample.csv"

if __name__ == "__main__":
    TO.write_text(write_csv(generate_trace(PARAMETERS)), encoding="utf-8")
