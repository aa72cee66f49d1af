"""Ends the engine of networks of a stopped pool: for `down`, after which nothing of a pool runs."""

from __future__ import annotations

from gpupool.agent.network.engine_end import remove_engine
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.directory import StateDir


def end_networks(options: HostOptions) -> int:
    """End the daemons and remove what they left. Idempotent; returns the exit status.

    The pool's database has every network, so the next start writes them to a new engine.

    Raises PoolAlreadyRunning where a server has the state directory again.
    """
    state = StateDir(options.state_dir)
    try:
        state.open()
        remove_engine(state.paths.agent)
    finally:
        state.close()
    return 0
