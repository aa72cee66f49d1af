"""What a node can start: bounds of limits, paths, arguments and of all of them together."""

from __future__ import annotations

import pytest

from gpupool.model.launch import (
    LARGEST_LAUNCH,
    LARGEST_LIMIT,
    LONGEST_PATH,
    LONGEST_STRING,
    NO_LIMIT,
    check_command,
    check_directory,
    check_environment,
    check_limit,
    check_size,
)


@pytest.mark.parametrize(
    ("soft", "hard"),
    [(0, 0), (5, 5), (5, NO_LIMIT), (NO_LIMIT, NO_LIMIT), (LARGEST_LIMIT, LARGEST_LIMIT)],
)
def test_limit_that_setrlimit_takes_passes(soft: int, hard: int) -> None:
    check_limit("nofile", soft, hard)


@pytest.mark.parametrize(
    ("name", "soft", "hard", "says"),
    [
        ("NOFILE", 1, 1, "unknown limit 'NOFILE'"),
        ("nofile", 6, 5, "limit nofile: got soft 6 above hard 5"),
        ("nofile", NO_LIMIT, 5, "limit nofile: got soft -1 above hard 5"),
        ("nofile", -2, 5, "soft limit of nofile: got -2"),
        ("nofile", 1, LARGEST_LIMIT + 1, "hard limit of nofile: got 9223372036854775808"),
    ],
)
def test_limit_that_setrlimit_refuses_is_named(name: str, soft: int, hard: int, says: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        check_limit(name, soft, hard)
    assert str(caught.value).startswith(says)


def test_directory_is_absolute_and_counted_in_bytes() -> None:
    check_directory("/" + "x" * (LONGEST_PATH - 1))
    for path in ("x", "", "/" + "x" * LONGEST_PATH, "/" + "é" * (LONGEST_PATH // 2 + 1)):
        with pytest.raises(ValueError, match="working directory: got"):
            check_directory(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\0b", "got a NUL character"),
        ("\ud800", "got a lone surrogate"),
        ("x" * (LONGEST_STRING + 1), f"got {LONGEST_STRING + 1} bytes"),
    ],
)
def test_argument_that_execve_cannot_pass_on_is_refused(text: str, says: str) -> None:
    check_command(["x" * LONGEST_STRING, "\udcff", ""])
    with pytest.raises(ValueError, match=says):
        check_command(["ok", text])


def test_environment_counts_name_and_value_as_one_string() -> None:
    check_environment({"A": "x" * (LONGEST_STRING - 2)})
    with pytest.raises(ValueError, match="environment variable A: got"):
        check_environment({"A": "x" * (LONGEST_STRING - 1)})
    for name in ("", "A=B"):
        with pytest.raises(ValueError, match="expected a name without '='"):
            check_environment({name: "x"})


def test_size_of_a_launch_has_a_bound_over_all_of_it() -> None:
    # Each text takes 16 bytes beside itself.
    rest = LARGEST_LAUNCH - (1 + 16) - (2 + 16)
    check_size(["x" * (rest - 16)], {"A": ""}, "/")
    with pytest.raises(ValueError, match=f"got {LARGEST_LAUNCH + 1} bytes"):
        check_size(["x" * (rest - 15)], {"A": ""}, "/")
