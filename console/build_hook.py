"""Check that the console's files were built before they are packed into a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleFilesHook(BuildHookInterface[Any]):
    """Stops a build whose wheel would have no page to serve."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise FileNotFoundError unless `static/index.html` is there."""
        page = Path(self.root) / "gpupool_console" / "static" / "index.html"
        if not page.is_file():
            raise FileNotFoundError(f"{page} is missing: run `make console` first")
