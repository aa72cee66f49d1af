"""Chromium on the web console: whether it is here, and what axe and the console's messages say."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "console"
STATIC = CONSOLE / "gpupool_console" / "static"
AXE = CONSOLE / "node_modules" / "axe-core" / "axe.min.js"
#: WCAG 2.2 A and AA.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SECONDS = 30


def find_missing() -> str:
    """Return what a browser test lacks here, as the reason of a skip; empty: nothing."""
    missing = []
    if find_spec("playwright") is None:
        missing.append("playwright (uv sync --inexact --group browser)")
    if find_chromium() is None:
        missing.append("Chromium (apt-get install chromium)")
    if not (STATIC / "index.html").is_file() or not AXE.is_file():
        missing.append("the console (make console)")
    return f"needs {', '.join(missing)}" if missing else ""


def find_chromium() -> str | None:
    """Return the path of the browser."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def add_package_path(environ: dict[str, str]) -> None:
    """Let a pool that is started with this environment find the console of this source tree."""
    paths = [str(CONSOLE), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@contextmanager
def open_browser(*arguments: str) -> Iterator[Any]:
    """Open Chromium without a window."""
    # Not at the top: a machine without Playwright still collects the tests.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=[*ARGUMENTS, *arguments]
        )
        try:
            yield browser
        finally:
            browser.close()


def await_condition(page: Any, condition: str, what: str) -> Any:
    """Ask the page until a condition holds; `wait_for_function` needs unsafe-eval, which is refused."""
    from playwright.sync_api import Error

    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            found = page.evaluate(condition)
        except Error as error:
            # The page is just left for another one, which is asked next.
            if "Execution context was destroyed" not in error.message:
                raise
            found = None
        if found:
            return found
        page.wait_for_timeout(50)
    raise AssertionError(f"never became true: {what}")


def find_violations(page: Any) -> list[str]:
    """Return what axe finds on the page, one line each."""
    page.evaluate(AXE.read_text())
    found = page.evaluate(f"axe.run({{runOnly: {RULES}}})")
    lines = []
    for violation in found["violations"]:
        for node in violation["nodes"]:
            lines.append(f"{violation['id']}: {node['html'][:200]}: {node['failureSummary']}")
    return lines


def collect_messages(page: Any) -> list[str]:
    """Collect what the page writes to its console, and its errors, from now on.

    Chromium drops its connections when an interface of the machine comes or goes, as tests of
    networks beside it make happen. The console asks again, so that message says nothing of it.
    """
    messages: list[str] = []

    def add(text: str) -> None:
        if "net::ERR_NETWORK_CHANGED" not in text:
            messages.append(text)

    page.on("console", lambda message: add(message.text))
    page.on("pageerror", lambda error: add(str(error)))
    return messages
