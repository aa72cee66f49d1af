"""Parses the labels of nodes on a command line, like `rack=r1` and `sim-1:rack=r2`."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.base.errors import BadOption
from gpupool.model.sharing_default import check_default


def parse_labels(texts: Sequence[str], nodes: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse labels, by node: `NODE:KEY=VALUE` for one node, `KEY=VALUE` for all. Raises BadOption.

    >>> parse_labels(["zone=z1", "sim-1:rack=r2"], ["sim-0", "sim-1"])["sim-1"]
    {'zone': 'z1', 'rack': 'r2'}
    """
    found: dict[str, dict[str, str]] = {node: {} for node in nodes}
    for text in texts:
        name, equals, value = text.partition("=")
        node, colon, key = name.rpartition(":")
        if not equals or not key or (colon and node not in found):
            raise BadOption(
                f"--label {text!r} is no label of {', '.join(nodes)}",
                hint="write it like --label rack=r1",
            )
        for one in [node] if colon else nodes:
            found[one][key] = value
    for labels in found.values():
        check_default(labels)
    return found
