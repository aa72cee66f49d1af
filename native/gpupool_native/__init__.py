"""Where the compiled parts of gpupool lie. Knows paths and nothing else."""

from pathlib import Path

__version__ = "0.2.0"


def shim_path() -> Path:
    """The job supervisor's program file."""
    return Path(__file__).parent / "bin" / "gpupool-shim"


def arbiter_path() -> Path:
    """The program that divides cards' time between allocations."""
    return Path(__file__).parent / "bin" / "gpupool-arbiter"


def hook_path() -> Path:
    """The program that looks at an image before a container with a fenced share begins."""
    return Path(__file__).parent / "bin" / "gpupool-hook"


def init_path() -> Path:
    """The first process of a job's container."""
    return Path(__file__).parent / "bin" / "gpupool-init"


def read_only_path() -> Path:
    """The program that makes a directory read-only for what it starts."""
    return Path(__file__).parent / "bin" / "gpupool-read-only"


def kernel_path() -> Path:
    """The library of the compiled placement policies."""
    return Path(__file__).parent / "lib" / "gpupool_kernel.so"


def fence_dir() -> Path:
    """Where the stand-ins `libcuda.so.1` and `libnvidia-ml.so.1` lie, with their placeholders not
    filled in."""
    return Path(__file__).parent / "lib" / "fence"


def simgpu_dir() -> Path:
    """Where the simulated card's `libcuda.so.1`, `libnvidia-ml.so.1` and `libcudart.so.*` lie."""
    return Path(__file__).parent / "lib" / "simgpu"
