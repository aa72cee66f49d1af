"""The tool of the console's pictures says which page changed, and how."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools" / "console_pictures.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("console_pictures", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_page_that_changed_is_named_with_what_changed() -> None:
    tool = load_tool()
    known = {"jobs": ["Jobs", "State", "Share"], "job": ["a", "b"], "map": ["Map"]}
    now = {"jobs": ["Jobs", "Share", "Cost"], "job": ["b", "a"], "map": ["Map"]}
    assert tool.compare_pages(known, now) == [
        "job.png: another order of the same texts",
        "jobs.png: gone ['State'], new ['Cost']",
    ]
    assert tool.compare_pages(known, known) == []
    assert tool.compare_pages({}, {"new": ["New"]}) == ["new.png: gone [], new ['New']"]
