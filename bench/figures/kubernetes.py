"""Binds a second beside the stock scheduler, writes a pod, admission, a gang, a large pool: a real
control plane."""

import asyncio
from pathlib import Path

from bench.kubernetes.__main__ import measured
from bench.kubernetes.sizes import Sizes
from bench.rows import Row

NAME = "kubernetes"


def run(out: Path) -> list[Row]:
    return asyncio.run(measured(Sizes()))
