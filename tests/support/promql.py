"""What an expression of PromQL names: families and labels, compared with those that gpupool has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
#: Names of families as the pool, an agent and a controller export them, frozen by tests of each.
CONTRACTS = ("metrics_names.txt", "metrics_names_node.txt", "metrics_names_controller.txt")
#: Families of others: Prometheus' own, and of DCGM's exporter those that boards join
#: (docs.nvidia.com/datacenter/cloud-native/gpu-telemetry, dcp-metrics-included.csv).
_DCGM_LABELS = frozenset({"gpu", "UUID", "device", "modelName", "Hostname"})
OTHERS: Mapping[str, frozenset[str]] = {
    "up": frozenset(),
    "DCGM_FI_DEV_GPU_UTIL": _DCGM_LABELS,
    "DCGM_FI_DEV_FB_USED": _DCGM_LABELS,
    "DCGM_FI_DEV_POWER_USAGE": _DCGM_LABELS,
    "DCGM_FI_DEV_GPU_TEMP": _DCGM_LABELS,
    "DCGM_FI_DEV_XID_ERRORS": _DCGM_LABELS,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _DCGM_LABELS,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": _DCGM_LABELS,
}
#: Labels that Prometheus gives every series at a scrape.
SCRAPE_LABELS = frozenset({"job", "instance"})
_NAME = re.compile(r"\b(?:gpupool_\w+|DCGM_\w+|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_LABEL_LIST = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)")
_REPLACED = re.compile(r'label_replace\(.*?,\s*"(\w+)",\s*"[^"]*",\s*"(\w+)"', re.DOTALL)
_STRING = re.compile(r'"[^"]*"')


@cache
def read_families() -> dict[str, frozenset[str]]:
    """Return the labels of every family that can be asked for, by name."""
    found: dict[str, set[str]] = {}
    for name in CONTRACTS:
        for line in (GOLDEN / name).read_text().splitlines():
            family, _, labels = line.split(" ")
            found.setdefault(family, set()).update(filter(None, labels.strip("{}").split(",")))
    known = {family: frozenset(labels) for family, labels in found.items()}
    return {**OTHERS, **known}


def list_faults(expression: str, families: Mapping[str, frozenset[str]]) -> list[str]:
    """List what an expression names and no family has."""
    faults = list(_list_unknown(expression, families))
    labels = list_labels(expression, families)
    for match in _LABEL_LIST.finditer(expression):
        named = {word.strip() for word in match[1].split(",")} - {""}
        faults += [f"label {label} of {match[0]}" for label in sorted(named - labels)]
    for _, source in _REPLACED.findall(expression):
        if source not in labels:
            faults.append(f"label {source} of label_replace")
    return faults


def list_labels(expression: str, families: Mapping[str, frozenset[str]]) -> set[str]:
    """List the labels that a result of the expression may have."""
    found = set(SCRAPE_LABELS)
    for match in _NAME.finditer(_drop_labels(expression)):
        found |= families.get(_get_name(match), frozenset())
    found |= {target for target, _ in _REPLACED.findall(expression)}
    return found


def _list_unknown(expression: str, families: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for match in _NAME.finditer(_drop_labels(expression)):
        name = _get_name(match)
        if name not in families:
            yield f"family {name}"
            continue
        for label in _MATCHER.findall(_STRING.sub('""', match[1] or "")):
            if label not in families[name] | SCRAPE_LABELS | {"le"}:
                yield f"label {label} of {name}"


def _drop_labels(expression: str) -> str:
    return _LABEL_LIST.sub("", expression)


def _get_name(match: re.Match[str]) -> str:
    return match[0].partition("{")[0]
