"""Figures on a real control plane with simulated nodes: rates, admission, gangs, and a large pool.

python -m bench.kubernetes                       what `python -m bench kubernetes` measures
python -m bench.kubernetes --nodes 50 --pods 100 rates
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from pathlib import Path

from bench.kubernetes import asking, gangs, hami, many, parts, rates, waits
from bench.kubernetes.rig import BenchPool, bench_pool
from bench.kubernetes.sizes import Sizes
from bench.rows import Row, table

PARTS: dict[str, Callable[[BenchPool, Sizes], Awaitable[list[Row]]]] = {
    "waits": waits.rows,
    "parts": parts.rows,
    "rates": rates.rows,
    "asking": asking.rows,
    "hami": hami.rows,
    "gangs": gangs.rows,
    "many": many.rows,
}


async def measured(
    sizes: Sizes,
    names: Sequence[str] = tuple(PARTS),
    profiles: Path | None = None,
    *,
    ahead: bool = False,
) -> list[Row]:
    """Every part on a rig of its own, with as many nodes as it needs. `ahead`: it goes before
    others of the machine."""
    found: list[Row] = []
    for part in names:
        nodes = {"gangs": sizes.gang, "many": sizes.many_nodes}.get(part, sizes.nodes)
        async with bench_pool() as pool:
            pool.profiles = profiles
            await pool.add_nodes(nodes)
            pool.start()
            if ahead:
                pool.go_ahead()
            await pool.capacities_told()
            found += await PARTS[part](pool, sizes)
            print(table(found), file=sys.stderr, flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all"
    )
    for one in fields(Sizes):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=int, default=one.default)
    parser.add_argument("--out", type=Path, help="a file for the rows, as JSON")
    parser.add_argument(
        "--profiles", type=Path, metavar="FOLDER", help="where `parts` puts profiles; default: none"
    )
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="the rig's programs go before others of this machine, so that waits are theirs; needs root",
    )
    asked = vars(parser.parse_args())
    ahead = asked.pop("ahead")
    out, profiles, chosen = (
        asked.pop("out"),
        asked.pop("profiles"),
        asked.pop("parts") or list(PARTS),
    )
    if unknown := sorted(set(chosen) - set(PARTS)):
        parser.error(f"no part named {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    rows = asyncio.run(measured(Sizes(**asked), chosen, profiles, ahead=ahead))
    if out is not None:
        out.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    print(table(rows))
    return 1 if any(row.holds is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
