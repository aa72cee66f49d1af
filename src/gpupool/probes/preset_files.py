"""Loads machine files: the presets shipped with gpupool, and files of users."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadMachine

EXAMPLES = (
    "4xL40S (one node), 2x8xH200 (nodes x cards x model), 4xL40S+2xT4 (mixed), 2xH200:mig (in partition mode), "
    "a preset, a .json file"
)


def list_presets() -> tuple[str, ...]:
    """Return the names of the machines shipped with gpupool."""
    entries = resources.files("gpupool.probes").joinpath("presets").iterdir()
    names = []
    for entry in entries:
        if entry.name.endswith(".json"):
            names.append(entry.name.removesuffix(".json"))
    return tuple(sorted(names))


def load_preset(name: str) -> Any:
    text = (
        resources.files("gpupool.probes")
        .joinpath("presets", f"{name}.json")
        .read_text(encoding="utf-8")
    )
    return json.loads(text)


def load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        hint = f"understood: {EXAMPLES}"
        raise BadMachine(f"{path} cannot be read: {problem.strerror}", hint=hint) from problem
    except ValueError as problem:
        raise BadMachine(f"{path} is not JSON: {problem}") from problem
