"""`python -m gpupool.host`: what `gpupool up`, `gpupool down --purge` and `gpupool doctor` start."""

from __future__ import annotations

import logging
import sys

from gpupool.host.options import parse


def main() -> int:
    what, options = parse(sys.argv[1:])
    if what == "facts":
        from gpupool.host.facts import facts

        return facts(options)
    if what == "purge":
        from gpupool.host.purge import purge

        return purge(options)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its set-up is no news to who starts a pool
    from gpupool.host.pool import run

    return run(options)


if __name__ == "__main__":
    sys.exit(main())
