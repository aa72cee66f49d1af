"""`python -m gpupool.host`: what `gpupool up`, `gpupool down --purge` and `gpupool doctor` start."""

from __future__ import annotations

import gc
import os
import sys

from gpupool.base.anew import begin_anew
from gpupool.base.silence import scale_from
from gpupool.base.supervised import register
from gpupool.host.options import parse


def main() -> int:
    what, options = parse(sys.argv[1:])
    if what == "facts":
        from gpupool.host.facts import facts

        return facts(options)
    if what == "purge":
        from gpupool.host.purge import purge

        return purge(options)
    if what in ("backup", "restore"):
        from gpupool.host import saving

        return saving.save(options) if what == "backup" else saving.restore(options)
    gc.disable()  # what is imported stays: looking at it in between costs a tenth of the imports' time
    from gpupool.base.settings import PoolPaths
    from gpupool.host.pool import run
    from gpupool.host.server_log import set_up

    gc.freeze()
    gc.enable()
    set_up(PoolPaths(options.state_dir).server_log)
    register.end_process = begin_anew
    register.pulse.scale = scale_from(os.environ)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
