"""What is sent to submit a job, and what is refused before the pool is asked."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadName,
    BadOption,
    BadQuantity,
    CommandNotFound,
    GpupoolError,
)
from gpupool.client.launch_capture import capture
from gpupool.client.submission import job_body, resize_body

GIB = 1 << 30


def shape(**asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_body(["true"], **asked)["shape"]
    return found


def test_a_share_of_one_card_with_the_quantity_as_typed() -> None:
    assert shape(gpu="0.3", memory="8Gi") == {
        "gpu_milli": 300,
        "count": 1,
        "memory_bytes": 8 * GIB,
        "memory_typed": "8Gi",
    }


def test_nothing_asked_is_one_whole_card() -> None:
    assert shape() == {"gpu_milli": 1000, "count": 1}


def test_a_number_above_one_is_that_many_whole_cards() -> None:
    assert shape(gpu="4") == {"gpu_milli": 1000, "count": 4}


def test_a_share_on_several_cards() -> None:
    assert shape(gpu="0.5", count="2")["count"] == 2


def test_labels_model_and_sharing_go_along() -> None:
    found = shape(gpu="0.1", labels=["rack=r1", "zone="], model="H200", sharing="burst")
    assert (found["labels"], found["model"], found["sharing"]) == (
        {"rack": "r1", "zone": ""},
        "H200",
        "burst",
    )


@pytest.mark.parametrize("sharing", ["best-effort", "offline"])
def test_a_share_without_a_promise_needs_no_share_of_the_compute(sharing: str) -> None:
    assert shape(memory="1GiB", sharing=sharing)["gpu_milli"] == 1000


@pytest.mark.parametrize(
    ("asked", "error", "message", "hint"),
    [
        (
            {"gpu": "0"},
            BadFraction,
            "--gpu 0 asks for nothing",
            "ask for 0.001 to 1 of a card, or whole cards",
        ),
        ({"gpu": "-0.5"}, BadFraction, "--gpu -0.5 asks for nothing", None),
        (
            {"gpu": "1.5", "count": "2"},
            BadFraction,
            "--gpu 1.5: above one card only whole cards can be given",
            None,
        ),
        ({"gpu": "2", "count": "3"}, BadFraction, "--gpu 2 means 2 whole cards already", None),
        (
            {"gpu": "0.5", "count": "0"},
            BadOption,
            "--count 0: a number of cards is from 1 to 100000",
            None,
        ),
        (
            {"gpu": "0.5", "count": "-1"},
            BadOption,
            "--count -1: a number of cards is from 1 to 100000",
            None,
        ),
        (
            {"gpu": "0.5", "count": "two"},
            BadOption,
            "--count two: this is not a number of cards",
            None,
        ),
        # Its hint would name --memory 8, which is refused too.
        ({"memory": "8"}, BadQuantity, "8 bytes? did you mean 8GiB?", "write 8GiB"),
        ({"memory": "8GiB"}, BadFraction, "--memory 8GiB without a share of the compute", None),
        (
            {"gpu": "none"},
            BadFraction,
            "--gpu none: a command shares a card; only a virtual machine can be without one",
            "gpupool vm run --gpu none, or a small share: --gpu 0.1",
        ),
        ({"gpu": "0.1", "memory": "8"}, BadQuantity, "8 bytes? did you mean 8GiB?", "write 8GiB"),
        ({"gpu": "0.1", "sharing": "fast"}, BadOption, "--sharing 'fast' is not known", None),
        ({"gpu": "0.1", "labels": ["rack"]}, BadOption, "--label 'rack' is no label", None),
        ({"gpu": "0.1", "name": "a\nb"}, BadName, "job name 'a\\nb' cannot be used", None),
        (
            {"gpu": "0.1", "name": "j-4k9x2m7q8w"},
            BadName,
            "job name 'j-4k9x2m7q8w' cannot be used",
            None,
        ),
        ({"gpu": "0.1", "tenant": ""}, BadName, "tenant '' cannot be used", None),
        (
            {"gpu": "0.1", "array": "0"},
            BadOption,
            "--array 0: a number of jobs is from 1 to 1000000",
            None,
        ),
        (
            {"gpu": "0.1", "max_time": "90"},
            GpupoolError,
            "'90' is not a duration",
            "write 90s, 90m or 90h",
        ),
    ],
)
def test_what_makes_no_sense_is_said_with_its_numbers(
    asked: dict[str, Any], error: type[GpupoolError], message: str, hint: str | None
) -> None:
    with pytest.raises(error) as caught:
        shape(**asked)
    assert caught.value.message == message
    assert caught.value.hint == hint if hint else caught.value.hint


def test_times_priorities_and_arrays_are_read() -> None:
    body = job_body(["true"], gpu="1", max_time="1h30m", priority="-10", array="7")
    assert (body["max_seconds"], body["priority"], body["array"]) == (5400, -10, 7)
    assert job_body(["true"], priority="high")["priority"] == "high"


def test_the_surroundings_are_this_process_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINE", "ä b")
    before = os.umask(0o027)
    try:
        launch = capture(["sh", "-c", "x"])
    finally:
        os.umask(before)
    assert (launch["argv"], launch["cwd"], launch["umask"]) == (
        ["sh", "-c", "x"],
        str(tmp_path),
        0o027,
    )
    assert launch["env"] == {**os.environ, "MINE": "ä b"}
    assert launch["limits"]["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert launch["limits"]["core"] == resource.getrlimit(resource.RLIMIT_CORE)


def test_no_command_is_said() -> None:
    with pytest.raises(BadInput, match="no command is given"):
        job_body([], gpu="1")


def test_a_command_is_looked_for_on_the_callers_path(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    assert capture(["tool"], environ={b"PATH": b"/nowhere:" + os.fsencode(tmp_path)})["argv"] == [
        "tool"
    ]
    with pytest.raises(CommandNotFound, match="command not found: tool") as caught:
        capture(["tool"], environ={b"PATH": b"/nowhere"})
    assert (caught.value.exit_code, caught.value.hint) == (127, "looked in PATH=/nowhere")


def test_a_file_that_may_not_be_executed_is_told_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    with pytest.raises(CommandNotFound, match="may not be executed"):
        capture(["./tool"], cwd=str(tmp_path))


def test_a_whole_line_in_quotes_is_recognized() -> None:
    with pytest.raises(CommandNotFound) as caught:
        capture(["python train.py"])
    assert caught.value.hint == "give its words apart: gpupool run -- python train.py"


def test_a_pool_elsewhere_has_other_files_so_the_command_is_not_looked_for() -> None:
    assert capture(["only-there"], local=False)["argv"] == ["only-there"]


def test_a_directory_that_was_removed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BadInput, match="does not exist any more"):
        capture(["true"])


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {b"PATH": b"/bin", b"BAD": b"a\xffb"},
            "the environment variable BAD is not valid UTF-8 (byte 0xff at position 1)",
        ),
        (
            {b"B\xfeD": b"x"},
            "the name of the environment variable B\\xfeD is not valid UTF-8 (byte 0xfe at position 1)",
        ),
    ],
)
def test_a_variable_that_is_no_utf8_is_named(environ: dict[bytes, bytes], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        capture(["sh"], environ=environ)
    assert caught.value.message == message


def test_a_word_that_is_no_utf8_is_named() -> None:
    with pytest.raises(
        BadInput, match=r"word 2 of the command is not valid UTF-8 \(byte 0xff at position 3\)"
    ):
        capture(["sh", os.fsdecode(b"abc\xff")])


def test_a_resize_names_only_what_changes() -> None:
    assert resize_body("0.5") == {"gpu_milli": 500}
    assert resize_body(memory="8Gi") == {"memory_bytes": 8 * GIB}
    assert resize_body("1", "1MiB") == {"gpu_milli": 1000, "memory_bytes": 1 << 20}


@pytest.mark.parametrize(
    ("gpu", "memory", "error", "text"),
    [
        (None, None, BadOption, "resize to what"),
        ("0", None, BadFraction, "asks for nothing"),
        ("2", None, BadFraction, "not how many there are"),
        (None, "0", BadQuantity, "0"),
    ],
)
def test_a_resize_that_makes_no_sense_is_refused_at_once(
    gpu: str | None, memory: str | None, error: type[GpupoolError], text: str
) -> None:
    with pytest.raises(error, match=text):
        resize_body(gpu, memory)


def test_what_is_demanded_of_the_mechanism_goes_with_the_shape() -> None:
    assert shape(isolation="fault", goal="latency", host="vm")["needs"] == {
        "isolation": "fault",
        "goal": "latency",
        "host": "vm",
    }
    assert "needs" not in shape()


@pytest.mark.parametrize("given", [{"isolation": "firm"}, {"goal": "fun"}, {"host": "bare"}])
def test_an_unknown_demand_is_refused_with_the_known_ones(given: dict[str, str]) -> None:
    with pytest.raises(BadOption) as refused:
        shape(**given)
    assert "one of: " in (refused.value.hint or "")


def test_the_words_of_demands_are_those_of_the_model() -> None:
    from gpupool.client import claim_needs
    from gpupool.model.isolation.claim_needs import ClaimGoal, IsolationKind
    from gpupool.model.isolation.host_kind import HostKind

    assert tuple(IsolationKind) == claim_needs.ISOLATION
    assert tuple(ClaimGoal) == claim_needs.GOALS
    assert tuple(HostKind) == claim_needs.HOSTS
