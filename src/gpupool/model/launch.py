"""What a node can start: rules of a command, its directory, its environment and its resource
limits.

A submission is checked against them, so that a node refuses nothing that the server accepted. The
supervisor's parser (native/supervisor/spec.c) and execve(2) set them; tests/properties/test_launches.py
compares them with that parser. Values of limits are bounded elsewhere: only their shape is checked
here. No I/O.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

#: Names of setrlimit(2) in lower case and without RLIMIT_, as spec.c knows them.
LIMIT_NAMES: Final = frozenset(
    (
        *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue"),
        *("nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
    )
)
#: On the wire: RLIM_INFINITY.
NO_LIMIT: Final = -1
#: rlim_t is unsigned; every API between hands it on as a signed 64-bit number.
LARGEST_LIMIT: Final = 2**63 - 1
#: PATH_MAX without its NUL, bytes.
LONGEST_PATH: Final = 4095
#: MAX_ARG_STRLEN of Linux without its NUL, bytes: the longest argument, and the longest NAME=VALUE.
LONGEST_STRING: Final = 131071
#: Bytes of a whole description: SPEC_MAX_BYTES of spec.h, less what the pool and its mechanisms add
#: for themselves.
LARGEST_LAUNCH: Final = (4 << 20) - (256 << 10)
#: Bytes that a record of the description takes besides its text: `unmounted_env=` and a NUL are the
#: most.
_RECORD_BYTES: Final = 16


def check_limit(name: str, soft: int, hard: int) -> None:
    """Raise ValueError unless setrlimit(2) could be called with it. `NO_LIMIT` is infinity."""
    if name not in LIMIT_NAMES:
        raise ValueError(
            f"unknown limit {name!r}: got {name!r}, expected one of {', '.join(sorted(LIMIT_NAMES))}"
        )
    for which, value in (("soft", soft), ("hard", hard)):
        if not NO_LIMIT <= value <= LARGEST_LIMIT:
            raise ValueError(
                f"{which} limit of {name}: got {value}, expected {NO_LIMIT} to {LARGEST_LIMIT}"
            )
    if hard != NO_LIMIT and (soft == NO_LIMIT or soft > hard):
        raise ValueError(
            f"limit {name}: got soft {soft} above hard {hard} ({NO_LIMIT} is no limit)"
        )


def check_directory(path: str) -> None:
    """Raise ValueError for a working directory that no node can enter."""
    if not path.startswith("/"):
        raise ValueError(f"working directory: got {path[:80]!r}, expected an absolute path")
    _check_text("working directory", path, LONGEST_PATH)


def check_command(argv: Iterable[str]) -> None:
    """Raise ValueError for arguments that execve(2) cannot pass on."""
    for argument in argv:
        _check_text("argument", argument, LONGEST_STRING)


def check_environment(variables: Mapping[str, str]) -> None:
    """Raise ValueError for variables that execve(2) cannot pass on."""
    for name, value in variables.items():
        if not name or "=" in name:
            raise ValueError(
                f"environment variable: got the name {name[:80]!r}, expected a name without '='"
            )
        _check_text(f"environment variable {name[:80]}", f"{name}={value}", LONGEST_STRING)


def check_size(argv: Iterable[str], variables: Mapping[str, str], directory: str) -> None:
    """Raise ValueError for a command and environment that do not fit into one description."""
    texts = [directory, *argv, *(f"{name}={value}" for name, value in variables.items())]
    size = sum(len(os.fsencode(text)) + _RECORD_BYTES for text in texts)
    if size > LARGEST_LAUNCH:
        raise ValueError(
            f"command and environment: got {size} bytes, expected at most {LARGEST_LAUNCH}"
        )


def _check_text(what: str, text: str, longest: int) -> None:
    if "\0" in text:
        raise ValueError(f"{what}: got a NUL character, expected none: {text[:80]!r}")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise ValueError(f"{what}: got a lone surrogate, expected text: {text[:80]!a}") from None
    if size > longest:
        raise ValueError(f"{what}: got {size} bytes, expected at most {longest}")
