"""From the link of the demo to a notebook in a real browser, and a terminal in its job.

The demo's own pool, the console as `make console` built it, a real JupyterLab, Chromium.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.console_browser import (
    await_condition,
    collect_messages,
    find_missing,
    find_violations,
    open_browser,
)
from tests.support.jupyter import find_jupyter

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the demo's pool of root runs jobs as root here"),
    pytest.mark.skipif(bool(find_missing()), reason=find_missing()),
]
ROOT = Path(__file__).parents[2]
#: Of a notebook's start: generous, for a machine with much else to do.
SECONDS = 120
#: Asked by the page itself, in its own origin.
START_KERNEL = """
fetch(location.pathname.replace(/lab.*/, 'api/kernels'), {method: 'POST'}).then(it => it.json())
"""
#: docs/how-to/workspaces.md says so.
MOST_CLICKS = 3


@pytest.fixture
def link(capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    """The link that the demo ends with; its pool lives as long as the test."""
    programs = find_jupyter()
    if not programs:
        pytest.skip("JupyterLab cannot be installed here")
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    demo = subprocess.Popen(
        ["sh", "tools/demo.sh", "console"],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdin is not None
    assert demo.stdout is not None
    lines = []
    try:
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("http://"):
                yield line.strip()
                break
        else:
            raise AssertionError("the demo prints no link:\n" + "".join(lines))
    finally:
        demo.stdin.close()
        rest = demo.stdout.read()
        assert demo.wait(120) == 0, rest
        demo.stdout.close()


class CountedPage:
    """A page on which every click is counted."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: str, name: str) -> None:
        self.page.get_by_role(role, name=name, exact=True).click()
        self.clicks += 1


def read_terminal(page: Any) -> str:
    return str(page.evaluate("document.querySelector('.xterm-rows').innerText"))


def test_a_notebook_runs_within_three_clicks_of_the_demos_link(link: str) -> None:
    with open_browser() as browser:
        context = browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 860})
        page = context.new_page()
        messages = collect_messages(page)
        counted = CountedPage(page)
        began = time.monotonic()
        page.goto(link)
        page.wait_for_selector("nav")
        with context.expect_page() as opened:
            counted.click("button", "Notebook")
        tab = opened.value
        tab.wait_for_selector("#jp-main-dock-panel", timeout=SECONDS * 1000)
        # Not by its launcher: a notebook would be a file in the home of this account.
        kernel = tab.evaluate(START_KERNEL)
        assert kernel["execution_state"] == "starting", kernel
        seconds = time.monotonic() - began
        print(
            f"from the link to JupyterLab and its kernel: {seconds:.1f} s, {counted.clicks} clicks"
        )
        assert counted.clicks <= MOST_CLICKS
        check_terminal(page, counted)
        check_logout(page, tab)
        assert [one for one in messages if "Content Security Policy" in one] == []


def check_terminal(page: Any, counted: CountedPage) -> None:
    """The page Job opens a shell in the notebook's own job, with its environment."""
    page.wait_for_selector("text=gpupool ssh notebook")
    page.wait_for_selector("text=gpupool port-forward notebook")
    counted.click("button", "Terminal")
    page.wait_for_selector(".terminal[data-state=open]")
    page.keyboard.type("unset HISTFILE; echo $GPUPOOL_JOB-$((6*7))\n")
    job = page.url.rstrip("/").rpartition("/")[2]
    await_condition(
        page,
        f"document.querySelector('.xterm-rows').innerText.includes('{job}-42')",
        "the shell's answer",
    )
    await_condition(page, "document.getAnimations().length === 0", "the end of the fade")
    assert find_violations(page) == []


def check_logout(page: Any, tab: Any) -> None:
    """A logout ends the terminal and the notebook's cookie."""
    address = tab.url
    page.evaluate(
        "fetch('/logout', {method: 'POST', headers: {'X-Gpupool': '1'}}).then(it => it.status)"
    )
    page.wait_for_selector(".terminal[data-state=ended]")
    answer = tab.goto(address)
    assert answer.status == 401
    assert "GP-" in tab.content()
