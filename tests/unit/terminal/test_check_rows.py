"""The rows of `doctor` as a table with a verdict."""

from __future__ import annotations

from gpupool.terminal import check_rows


def test_the_doctors_table_ends_with_a_verdict() -> None:
    checks = [
        check_rows.make_check("python", "ok", "3.11"),
        check_rows.make_check("supervisor", "fail", "missing", "reinstall"),
    ]
    assert check_rows.format_checks(checks).splitlines() == [
        "CHECK       STATE  FOUND",
        "python      ok     3.11",
        "supervisor  fail   missing",
        "",
        "next:",
        "  supervisor: reinstall",
        "",
        "1 of 2 checks failed",
    ]


def test_a_warning_is_not_wrong_and_colours_follow_the_states() -> None:
    warned = [check_rows.make_check("driver", "warn", "none")]
    assert check_rows.format_checks(warned).endswith("\n\nnothing is wrong")
    assert check_rows.format_checks(warned, color=True).endswith("\x1b[32mnothing is wrong\x1b[0m")
    failed = [*warned, check_rows.make_check("state", "fail", "full")]
    painted = check_rows.format_checks(failed, color=True)
    assert painted.endswith("\x1b[31m1 of 2 checks failed\x1b[0m")
    assert "\x1b[33mwarn" in painted


def test_fixes_are_lines_for_a_shell_below_what_was_found() -> None:
    rows = [
        check_rows.make_check("disk", check_rows.OK, "fine", "never shown"),
        check_rows.make_check("versions", check_rows.WARN, "client 1, server 2", "gpupool restart"),
        check_rows.make_check("cgroups", check_rows.FAIL, "none"),
    ]
    assert check_rows.format_fixes(rows).splitlines() == [
        "# versions: client 1, server 2",
        "gpupool restart",
        "# cgroups: none",
        "# nothing to type helps here",
    ]
    assert check_rows.format_fixes(rows[:1]) == "# nothing is wrong\n"
