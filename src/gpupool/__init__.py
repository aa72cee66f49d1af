"""gpupool: one pool for all your GPUs. This module holds the version and imports nothing."""

__version__ = "0.2.0"
