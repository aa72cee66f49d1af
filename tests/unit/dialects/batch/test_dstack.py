"""dstack: the grammar of dstackai/dstack core/models/resources.py (`A100`, `80GB:2`, ranges, the
long form)."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import GpupoolError
from gpupool.dialects.batch import dstack
from gpupool.dialects.batch.script import submit_line


def configuration(gpu: Any, **more: Any) -> dict[str, Any]:
    return {"type": "task", "resources": {"gpu": gpu}, **more}


@pytest.mark.parametrize(
    ("gpu", "count", "models"),
    [
        (2, 2, ()),
        ("A100", 1, ("A100-40G", "A100-80G")),
        ("A100:80GB:2", 2, ("A100-80G",)),
        ("nvidia:A10,A100:24GB..80GB:1..2", 1, ("A10", "A100-40G", "A100-80G")),
        ("T4:16GB", 1, ("T4",)),
        ("amd:4", 4, ("MI210", "MI300X")),
        ({"name": ["H100", "H200"], "count": 8}, 8, ("H100", "H200")),
        ({"name": "A100", "memory": "40GB", "count": "2.."}, 2, ("A100-40G",)),
        ({"name": "V100,T4", "compute_capability": "7.5"}, 1, ("T4",)),
        ("NEWCARD:2", 2, ("NEWCARD",)),
    ],
)
def test_cards_are_whole_and_models_are_those_that_fit(
    gpu: Any, count: int, models: tuple[str, ...]
) -> None:
    ask = dstack.understand_configuration(configuration(gpu))[0].ask
    assert (ask.count, ask.gpu_milli, ask.select.models) == (count, 1000, models)


def test_memory_alone_means_every_model_that_has_so_much() -> None:
    found = dstack.understand_configuration(configuration("140GB.."))[0].ask.select.models
    assert "H200" in found
    assert "H100" not in found


@pytest.mark.parametrize(
    ("gpu", "refusal"),
    [
        ("A100::2", "GP-1041: gpu: A100::2: a part is empty"),
        ("A100:H100", "GP-1041: gpu: A100:H100: two parts are a name"),
        ("A100:24GB", "GP-1041: gpu name=A100:memory=24GB: no known model is like that"),
        ("google:8", "GP-2016: gpu.vendor: google: models of it are not known here"),
        ({"total_memory": "80GB"}, "GP-2016: gpu.total_memory: memory is asked for per card"),
        ("0", "GP-1041: gpu.count: 0: this is a whole number from 1"),
        ("24QB", "GP-1041: gpu.memory: 24QB: this is no amount of memory"),
    ],
)
def test_what_it_cannot_mean_is_refused(gpu: Any, refusal: str) -> None:
    with pytest.raises(GpupoolError) as refused:
        dstack.understand_configuration(configuration(gpu))
    assert f"{refused.value.code}: {refused.value.message}".startswith(refusal)


def test_the_line_to_type_says_all_of_it() -> None:
    given = configuration(
        "H100:2", name="train", nodes=4, commands=["pip install x", "python t.py"], image="y"
    )
    given["resources"] |= {"cpu": "8..", "memory": "64GB.."}
    job, command = dstack.understand_configuration(given)
    line, _ = submit_line(job, command)
    assert line == (
        "gpupool submit --gpu 2 --model H100 --name train --cpus 8 --host-memory 65536MiB --gang 4"
        " -- sh -c 'pip install x && python t.py'"
    )
    assert job.notes == ("image is not taken over",)


def test_a_manifest_of_kubernetes_is_none_of_dstacks() -> None:
    assert dstack.is_configuration(configuration(1))
    assert not dstack.is_configuration({"kind": "Pod", "type": "task"})
    assert not dstack.is_configuration(["task"])
