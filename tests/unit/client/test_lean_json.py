"""The lean reader and writer of JSON agree with the standard library's."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.client import lean_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_it_writes_is_what_json_writes(value: Any) -> None:
    assert lean_json.dumps(value) == json.dumps(value, separators=(",", ":"))


@given(VALUES)
def test_it_reads_what_json_writes_in_any_layout(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert lean_json.loads(f" \n{text}\r\n") == value
        if text.isascii():
            assert lean_json.loads(text.encode()) == value


def test_lone_surrogates_survive_both_ways() -> None:
    assert lean_json.loads(lean_json.dumps("\udcff")) == "\udcff"


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{'a': 1}", "nul", "1 2", '"\n"', "[1}"])
def test_what_json_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        json.loads(text)
    with pytest.raises(ValueError):
        lean_json.loads(text)


def test_infinities_and_nan_are_read_as_json_reads_them() -> None:
    assert lean_json.loads("[Infinity, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(lean_json.loads("NaN"))


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError):
        lean_json.dumps({"a": object()})


def test_without_the_accelerator_the_standard_module_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_json, "_scan", None)
    monkeypatch.setattr(lean_json, "_encode", None)
    assert lean_json.loads(lean_json.dumps({"a": [1, None]})) == {"a": [1, None]}


def test_importing_it_imports_neither_json_nor_re() -> None:
    program = (
        "import sys, gpupool.client.lean_json as j; j.loads('[1]'); print(sorted({'json', 're'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
