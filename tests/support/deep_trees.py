"""Directories inside one another, deeper than the stack of a program that calls itself for each."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEPTH = 120


def make_deep_tree(path: Path) -> None:
    """Make directories inside one another, as no path could name them if there were more."""
    path.mkdir(exist_ok=True)
    folder = os.open(path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)


@contextmanager
def few_frames() -> Iterator[None]:
    """Allow fewer frames than the tree is deep: a tree of 1,000 takes seconds to make."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + DEPTH // 2)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
