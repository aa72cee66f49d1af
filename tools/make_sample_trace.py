"""Makes src/gpupool/simulation/data/sample.csv again; run it after a change of the generator."""

from pathlib import Path

from gpupool.simulation.sample import PARAMETERS
from gpupool.simulation.synthetic import generate
from gpupool.simulation.trace import write_csv

TO = Path(__file__).parents[1] / "src" / "gpupool" / "simulation" / "data" / "sample.csv"

if __name__ == "__main__":
    TO.write_text(write_csv(generate(PARAMETERS)), encoding="utf-8")
