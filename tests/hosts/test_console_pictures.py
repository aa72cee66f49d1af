"""The pictures of the console in the docs show the pages as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.console_browser import find_missing

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nightly,
    pytest.mark.skipif(bool(find_missing()), reason=find_missing()),
]
ROOT = Path(__file__).parents[2]
SECONDS = 600


def test_pictures_show_the_pages_as_they_are() -> None:
    command = [sys.executable, "tools/console_pictures.py", "check"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
