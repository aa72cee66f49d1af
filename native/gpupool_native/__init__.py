"""Where the compiled parts of gpupool lie. Knows paths and nothing else."""

from pathlib import Path

__version__ = "0.1.0"


def shim_path() -> Path:
    """The job supervisor's program file."""
    return Path(__file__).parent / "bin" / "gpupool-shim"
