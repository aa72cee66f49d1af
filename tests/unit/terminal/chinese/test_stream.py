"""What is written to a translated stream: lines in Chinese, bytes and other lines as they are."""

from __future__ import annotations

import io

from gpupool.terminal.chinese.stream import TranslatedStream
from gpupool.terminal.chinese.translator import Translator

TERMS = {"words": {}, "words_of": {}, "titles": {}, "words_below": [], "sentences_below": []}
TRANSLATOR = Translator({"no jobs": "没有任务"}, TERMS, {})


def test_each_line_is_translated_and_others_stay() -> None:
    out = io.StringIO()
    stream = TranslatedStream(out, TRANSLATOR)
    stream.writelines(["no jobs\nno jobs here\n", "\n", "no jobs"])
    assert out.getvalue() == "没有任务\nno jobs here\n\n没有任务"


def test_bytes_go_to_the_stream_below() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8")
    stream = TranslatedStream(out, TRANSLATOR)
    stream.buffer.write(b"no jobs\n")
    stream.flush()
    assert raw.getvalue() == b"no jobs\n"
    assert stream.original is out


def test_a_coloured_line_keeps_its_colour_as_a_whole() -> None:
    out = io.StringIO()
    TranslatedStream(out, TRANSLATOR).write("\x1b[1mno\x1b[0m jobs\n\x1b[1mother\x1b[0m\n")
    assert out.getvalue() == "\x1b[1m没有任务\x1b[0m\n\x1b[1mother\x1b[0m\n"
