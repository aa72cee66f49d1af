"""Which language is spoken, and that English loads nothing of Chinese."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpupool.cli.main import main
from gpupool.terminal import language
from tests.unit.cli.sample import sample_pool


@pytest.mark.parametrize(
    ("environ", "spoken"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "GPUPOOL_LANG": "en"}, "en"),
        ({"LC_ALL": "C", "GPUPOOL_LANG": "zh"}, "zh"),
    ],
)
def test_the_strongest_variable_decides(environ: dict[str, str], spoken: str) -> None:
    assert language.choose_language(environ) == spoken


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "no-such", None])
def test_chinese_is_not_written_where_it_cannot_be(encoding: str | None) -> None:
    assert language.choose_language({"LANG": "zh_CN"}, encoding) == "en"
    assert language.choose_language({"LANG": "zh_CN"}, "gbk") == "zh"


@pytest.mark.parametrize(
    "line",
    [
        "--lang zh ps --help",
        "--lang=zh ps --help",
        "ps --lang zh --help",
        "ps --help --lang=zh",
        "--lang zh help ps",
    ],
)
def test_the_option_decides_before_and_behind_the_command(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_LANG", "en")
    assert main(line.split()) == 0
    assert capsys.readouterr().out.startswith("gpupool ps: 列出任务\n")
    assert not language.is_chinese()


def test_an_unknown_language_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lang", "fr", "ps"]) == 2
    assert "one of: en, zh" in capsys.readouterr().err
    assert main(["--lang"]) == 2


def test_the_words_of_a_program_choose_no_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_LANG", "en")
    main(["submit", "--gpu", "x", "--", "true", "--lang", "zh"])
    assert "is not a share of a card" in capsys.readouterr().err
    main(["submit", "--lang", "zh", "--gpu", "x", "--", "true"])
    assert "不是卡的份额" in capsys.readouterr().err


def run_measured(words: list[str], environ: dict[str, str]) -> tuple[str, set[str]]:
    """Run a command line in a process of its own; return its output and the modules of ours."""
    program = (
        "import sys; from gpupool.cli.main import main; main(sys.argv[1:]);"
        "sys.stderr.write(chr(10) + 'modules ' + ' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C.UTF-8", **environ},
        check=True,
    )
    return done.stdout, set(done.stderr.rpartition("modules ")[2].split())


def test_ps_in_english_loads_nothing_of_chinese(tmp_path: Path) -> None:
    with sample_pool(tmp_path):
        place = {"GPUPOOL_STATE_DIR": str(tmp_path)}
        english, modules = run_measured(["ps"], place)
        chinese, more = run_measured(["ps"], {**place, "GPUPOOL_LANG": "zh"})
    assert english.startswith("NAME")
    assert chinese.startswith("名称")
    assert not {one for one in modules if "chinese" in one or one == "importlib.resources"}
    assert "gpupool.terminal.chinese.translator" in more


def test_the_catalogues_of_messages_load_within_30_ms() -> None:
    from gpupool.terminal.chinese import translator

    best = []
    for _ in range(5):
        translator.load_translator.cache_clear()
        translator._load.cache_clear()
        begin = time.process_time()
        translator.load_translator()
        best.append(time.process_time() - begin)
    assert min(best) < 0.030


def test_json_is_the_same_in_both_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_STATE_DIR", str(tmp_path))
    with sample_pool(tmp_path):
        for output in ("json", "csv"):
            assert main(["ps", "-o", output]) == 0
            english = capsys.readouterr().out
            assert main(["--lang", "zh", "ps", "-o", output]) == 0
            assert capsys.readouterr().out == english
    assert main(["--lang", "zh", "help", "GP-2002", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["meaning"] == "Beyond the tenant's quota"
