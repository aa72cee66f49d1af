"""tests/file_order.py, in a run of pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests import file_order

file_order.LONG_FILES["test_long.py"] = 100
"""
MANY = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_many(number):
    pass
"""
ONE = """
def test_one():
    pass
"""


def test_the_file_that_takes_longest_goes_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_few.py").write_text(ONE)
    (tmp_path / "test_long.py").write_text(ONE)
    (tmp_path / "test_many.py").write_text(MANY)
    words = [
        "-n",
        "1",
        "--dist",
        "loadfile",
        "-p",
        "tests.file_order",
        "-p",
        "no:cacheprovider",
        "-v",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "."],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    order = list(dict.fromkeys(re.findall(r"PASSED (test_\w+\.py)", done.stdout)))
    assert order == ["test_long.py", "test_many.py", "test_few.py"]
