"""Rendering: the request that a document makes, and refusals at the field that causes them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadTemplateValue
from gpupool.templates.catalogue import read_catalogue
from gpupool.templates.rendering import Rendering, fill_follow, render_job
from gpupool.templates.values import check_values
from gpupool.wire.templates.documents import TemplateIn
from gpupool.wire.templates.uses import TemplateUse


def make(job: dict[str, Any], fields: dict[str, Any] | None = None) -> TemplateIn:
    named = {name: {"title": {"en": name}, **field} for name, field in (fields or {}).items()}
    body = {"name": "some", "version": 3, "summary": {"en": "x"}, "fields": named, "job": job}
    return TemplateIn.model_validate(body)


def render(document: TemplateIn, use: TemplateUse | None = None, **given: Any) -> Rendering:
    values = check_values(document.fields, given, document.name)
    return render_job(document, values, use or TemplateUse(), "one", "127.0.0.1")


def shipped(name: str, **given: Any) -> Rendering:
    return render(read_catalogue()[name][1], **given)


def test_amounts_are_in_the_units_of_the_api() -> None:
    numbers = {name: {"type": "number"} for name in ("gpu", "memory", "hours", "idle")}
    job = {
        "argv": ["x"],
        "gpu": "${gpu}",
        "memory_gib": "${memory}",
        "max_hours": "${hours}",
        "idle_minutes": "${idle}",
        "cpus": 1.5,
        "host_memory_gib": 2,
    }
    found = render(make(job, numbers), gpu=0.3, memory=1.5, hours=0.5, idle=30).job
    assert (found.shape.gpu_milli, found.shape.memory_bytes) == (300, 3 << 29)
    assert (found.max_seconds, found.idle_seconds) == (1800, 1800)
    assert (found.shape.cpu_milli, found.shape.host_bytes) == (1500, 2 << 30)
    whole = render(make(job, numbers), gpu=4).job
    assert (whole.shape.gpu_milli, whole.shape.count, whole.shape.memory_bytes) == (1000, 4, None)


def test_variables_of_the_template_come_before_those_of_the_shell() -> None:
    document = make({"argv": ["x"], "env": {"A": "${a}", "B": "${b}"}}, {"a": {}, "b": {}})
    use = TemplateUse.model_validate(
        {"launch": {"cwd": "/srv", "env": {"A": "shell", "HOME": "/h"}, "umask": 0o077}}
    )
    launch = render(document, use, a="own").job.launch
    assert launch.env == {"A": "own", "HOME": "/h", "GPUPOOL_TEMPLATE": "some@3"}
    assert (launch.cwd, launch.umask) == ("/srv", 0o077)
    bare = render(document).job.launch
    assert bare.cwd == "/tmp"
    assert bare.env["PATH"].startswith("/usr/local/sbin:")


def test_a_container_gets_the_mounts_and_no_variable_of_the_shell() -> None:
    document = make(
        {
            "argv": ["x"],
            "image": "registry.example/a:1",
            "mounts": ["${data}:/data:ro", "${out}:/out"],
            "directory": "/data",
        },
        {"data": {}, "out": {}},
    )
    use = TemplateUse.model_validate({"launch": {"env": {"SECRET": "x"}}})
    launch = render(document, use, data="/srv/in").job.launch
    assert launch.env == {"GPUPOOL_TEMPLATE": "some@3"}
    assert launch.container is not None
    assert launch.container.workdir == "/data"
    assert [(one.source, one.target, one.read_only) for one in launch.container.volumes] == [
        ("/srv/in", "/data", True)
    ]


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"gpu": "${n}"}, "n"),
        ({"count": "${n}"}, "n"),
        ({"array": "${n}"}, "n"),
        ({"gang": {"size": "${n}"}}, "n"),
        ({"gang": {"size": 2, "minimum": "${n}"}}, "n"),
        ({"port": {"number": "${n}"}}, "n"),
        ({"directory": "${text}"}, "text"),
        ({"image": "${text}"}, "text"),
        ({"image": "a:1", "mounts": ["${text}:/x"]}, "text"),
    ],
)
def test_what_the_request_refuses_is_told_at_the_field(job: dict[str, Any], field: str) -> None:
    document = make({"argv": ["x"], **job}, {"n": {"type": "number"}, "text": {}})
    with pytest.raises(BadTemplateValue) as caught:
        render(document, n=-2.5, text="NOT RIGHT")
    assert caught.value.details["fields"][0]["field"] == field


def test_a_sweep_is_an_array_with_the_arguments_of_each_job() -> None:
    job = shipped("sweep", script="t.py", parameters=["lr=0.1,0.01"], arguments=["a b"]).job
    assert job.array == 2
    assert job.launch.argv[3:] == ["gpupool-sweep", "python3", "t.py", "a b"]
    assert job.launch.env["GPUPOOL_TRIAL_1_0"] == "--lr=0.01"
    with pytest.raises(BadTemplateValue) as caught:
        shipped("sweep", script="t.py", parameters=["lr=0..1"])
    assert caught.value.details["fields"][0]["field"] == "parameters"


def test_a_gang_is_of_members_as_submit_makes_them() -> None:
    job = shipped("torchrun", script="t.py", members=4, processes=2, within="rack,preferred").job
    assert job.gang is not None
    assert job.gang.model_dump(exclude_defaults=True) == {
        "name": "gang",
        "within": {"preferred": "rack"},
        "parts": [{"name": "member", "count": 4}],
    }
    assert job.shape.count == 2


def test_one_replica_is_a_job_and_several_are_an_array() -> None:
    assert shipped("vllm", model="m").job.array is None
    several = shipped("vllm", model="m", replicas=3, served_name="chat")
    assert several.job.array == 3
    assert several.port is not None
    assert (several.port.number, several.port.health) == (8000, "/health")
    argv = several.job.launch.argv
    assert argv[:5] == ["vllm", "serve", "m", "--served-model-name", "chat"]
    assert "--max-model-len" not in argv


def test_commands_to_type_next_name_the_job() -> None:
    document = read_catalogue()["vscode"][1]
    values = check_values(document.fields, {"port": 9000}, "vscode")
    assert fill_follow(document, values, "one")[0] == "gpupool port-forward one 9000"
