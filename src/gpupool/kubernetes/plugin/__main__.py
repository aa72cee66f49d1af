"""`python -m gpupool.kubernetes.plugin`: the plugin where its program is not on PATH."""

from __future__ import annotations

from gpupool.kubernetes.plugin.main import entry

if __name__ == "__main__":
    entry()
