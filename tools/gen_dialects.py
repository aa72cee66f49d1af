"""Writes docs/reference/dialects.md from the dialects' own tables. `--check` only says whether it
is current."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from generated import ROOT, write_or_check

from gpupool.dialects.batch import dstack, lsf, slurm
from gpupool.dialects.contract import KnownWord
from gpupool.dialects.facts import MEANINGS
from gpupool.dialects.manifests.registry import DIALECTS, SCHEDULERS

TARGET = ROOT / "docs" / "reference" / "dialects.md"

HEAD = """# Words of other systems
<!-- Made by `make docs`; change the code instead. -->

Every word that `gpupool import` and the admission webhook understand, and what it means here. How to use them:
[bring your manifests](../how-to/bring-your-manifests.md). Words of a known system that are not in its table are noted,
and refused with `--strict`. A word with `<...>` in it stands for several.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for one in DIALECTS:
        parts += [
            f"## {one.title}\n",
            f"`{one.name}`. Source: {_link(one.source)}\n",
            *_table(one.names),
            "",
        ]
    for other in (slurm, lsf, dstack):
        parts += [
            f"## {other.TITLE}\n",
            f"Source: {_link(other.SOURCE)}\n",
            *_table(other.NAMES),
            "",
        ]
    parts += [
        "## Facts about nodes\n",
        "For `--node-facts FILE`; `labels:` may hold a node's labels as well.\n",
    ]
    parts += [
        "| fact | says |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in MEANINGS.items()),
        "",
    ]
    schedulers = ", ".join(f"`{name}`" for name in SCHEDULERS)
    parts += [
        "## Schedulers\n",
        f"A pod of one of these is given to Kubernetes' own, and released to it: {schedulers}.\n",
    ]
    return "\n".join(parts)


def _link(source: str) -> str:
    return (
        f"<{source}>"
        if source.startswith("http")
        else f"[{source}](../{source.removeprefix('docs/')})"
    )


def _table(names: Iterable[KnownWord]) -> list[str]:
    rows = [f"| `{name.key}` | {name.where} | {name.values} | {name.meaning} |" for name in names]
    return ["| word | place | values | means |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    sys.exit(write_or_check({TARGET: page()}))
