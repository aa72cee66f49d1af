"""The line that submits a batch script's job here, and what it cannot say."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from gpupool.base.errors import FactMissing
from gpupool.base.units import GIB, MIB
from gpupool.dialects.batch.script import JobClaim, build_document, submit_line
from gpupool.dialects.contract import CardFilter, ContainerAsk

HALF_MEMORY = {"gpu_milli": 300, "memory_milli": 500}


def submit(ask: ContainerAsk, memory: int | None = None, **job: Any) -> tuple[str, tuple[str, ...]]:
    line, left_out = submit_line(JobClaim(ask, **job), ("sh", "a b.sh"), memory)
    assert shlex.split(line)[-3:] == ["--", "sh", "a b.sh"]
    return line.removeprefix("gpupool submit ").removesuffix(" -- sh 'a b.sh'"), left_out


def test_whole_cards_are_counted_and_parts_have_their_count() -> None:
    assert submit(ContainerAsk(4, 1000)) == ("--gpu 4", ())
    line, _ = submit(ContainerAsk(2, 250, memory_bytes=8 * GIB))
    assert line == "--gpu 0.25 --memory 8192MiB --count 2"


def test_part_of_the_memory_is_counted_on_a_card_of_known_size() -> None:
    ask = ContainerAsk(1, **HALF_MEMORY)
    assert submit(ask, 80 * GIB)[0] == "--gpu 0.3 --memory 40960MiB"
    with pytest.raises(FactMissing) as caught:
        submit(ask)
    assert caught.value.details["fact"] == "card_memory"


def test_part_of_the_memory_of_several_models_is_of_the_smallest() -> None:
    ask = ContainerAsk(1, **HALF_MEMORY, select=CardFilter(models=("A100-80G", "A100-40G")))
    line, left_out = submit(ask)
    assert left_out[0].startswith("parts of the memory are counted on the smallest of these models")
    memory = int(line.split("--memory ")[1].split("MiB")[0])
    assert memory * MIB < 21 * GIB


def test_choices_of_cards_without_an_option_are_named() -> None:
    select = CardFilter(uuids=("GPU-1",), not_models=("T4",))
    _, left_out = submit(ContainerAsk(1, 1000, select=select, vendor="amd"))
    assert [text.split(":")[0] for text in left_out] == [
        "single cards by UUID",
        "no card of T4",
        "cards of amd",
    ]


def test_document_leaves_out_what_is_not_said() -> None:
    found = build_document(JobClaim(ContainerAsk(1, 1000), name="train", members=2))
    assert (found["name"], found["members"]) == ("train", 2)
    assert not {"array", "queue", "cpu_milli", "requeue"} & set(found)
