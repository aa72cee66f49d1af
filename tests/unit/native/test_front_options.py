"""Which options the native command understands: those of its README, and it leaves all others to
Python."""

from __future__ import annotations

import re

import pytest

from gpupool.terminal.commands import GLOBAL_OPTIONS
from gpupool.terminal.language import choose_language
from gpupool.terminal.share_options import OF
from tests.unit.native.front_pool import FELL_BACK, FRONT, Programs, ended, first, http

ROW = re.compile(r'\{"(-[-a-z]+)", (BOTH|COMMAND_RUN|COMMAND_SUBMIT),')
TABLES = {"BOTH": "`run` and `submit`", "COMMAND_RUN": "`run`", "COMMAND_SUBMIT": "`submit`"}


def read_native_options(command: str) -> set[str]:
    """The options of `options.c` for a command: BOTH, COMMAND_RUN or COMMAND_SUBMIT."""
    rows = ROW.findall((FRONT / "options.c").read_text())
    return {flag for flag, commands in rows if commands == command}


def list_other_options() -> list[str]:
    """A command line for every option that Python has and the native command has not."""
    lines = []
    for command, options in OF.items():
        native = read_native_options("BOTH") | read_native_options(f"COMMAND_{command.upper()}")
        for flags, _, kind, _, _ in (*GLOBAL_OPTIONS, *options):
            for flag in flags:
                if flag not in native:
                    value = "" if kind == "flag" else " 1"
                    lines.append(f"{command} {flag}{value} true")
    return lines


@pytest.mark.parametrize("command", TABLES)
def test_the_readme_lists_what_the_native_command_understands(command: str) -> None:
    text = (FRONT / "README.md").read_text()
    [row] = [line for line in text.splitlines() if line.startswith(f"| {TABLES[command]} |")]
    listed = re.findall(r"`(-[-a-z]+)`", row)
    assert set(listed) == read_native_options(command)
    assert len(listed) == len(set(listed))


def test_some_options_of_python_are_not_native() -> None:
    assert {"submit --gang 1 true", "run --requeue true"} < set(list_other_options())


@pytest.mark.parametrize("words", list_other_options())
def test_every_other_option_is_left_to_python_before_anything_is_sent(
    programs: Programs, words: str
) -> None:
    done = programs.run(programs.front, words, http(first(ended())))
    assert (done.code, done.asked) == (FELL_BACK, [])
    assert done.out.decode().strip() == f"fell back: {words}"


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_native_option_is_not_left_to_python(programs: Programs, command: str) -> None:
    done = programs.run(programs.front, f"{command} --gpu 0.5 true", http(first(ended())))
    assert done.code != FELL_BACK
    assert len(done.asked) == 1


@pytest.mark.parametrize(
    ("environ", "is_python"),
    [
        ({"GPUPOOL_LANG": "zh"}, True),
        ({"LC_ALL": "zh_CN.UTF-8"}, True),
        ({"LC_ALL": "", "LC_MESSAGES": "ZH_CN", "LANG": "en"}, True),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, True),
        ({"GPUPOOL_LANG": "en", "LC_ALL": "zh_CN.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, False),
    ],
)
def test_chinese_is_left_to_python_as_python_chooses_it(
    programs: Programs, environ: dict[str, str], is_python: bool
) -> None:
    surroundings = {**programs.environment, **environ}
    done = programs.run(
        programs.front, "run --gpu 0.5 true", http(first(ended())), env=surroundings
    )
    assert (done.code == FELL_BACK) == is_python
    assert (choose_language(surroundings) == "zh") == is_python
