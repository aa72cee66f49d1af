"""`python -m gpupool.host`: what `gpupool up`, `gpupool down --purge` and `gpupool doctor`
start."""

from __future__ import annotations

import gc
import os
import sys

from gpupool.base.anew import begin_anew
from gpupool.base.lost_work import watch_threads
from gpupool.base.silence import read_scale
from gpupool.base.supervision import register
from gpupool.host.settings.options import parse_options


def main() -> int:
    """Do what the flags say; returns the exit status."""
    what, options = parse_options(sys.argv[1:])
    if what == "facts":
        from gpupool.host.facts import print_facts

        return print_facts(options)
    if what == "purge":
        from gpupool.host.state.purge import purge_pool

        return purge_pool(options)
    if what == "end-networks":
        from gpupool.host.state.network_end import end_networks

        return end_networks(options)
    if what in ("backup", "restore"):
        from gpupool.host.state import backup

        return backup.save_backup(options) if what == "backup" else backup.restore_backup(options)
    # Imported objects stay: collections in between would cost a tenth of the imports' time.
    gc.disable()
    from gpupool.base.settings import PoolPaths
    from gpupool.host.pool import run_pool
    from gpupool.host.server_log import set_up_log

    gc.freeze()
    gc.enable()
    set_up_log(PoolPaths(options.state_dir).server_log)
    register.end_process = begin_anew
    register.pulse.scale = read_scale(os.environ)
    watch_threads()
    return run_pool(options)


if __name__ == "__main__":
    sys.exit(main())
