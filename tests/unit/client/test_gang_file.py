"""A gang in a file: what it says becomes the request, and what is wrong with it is said with its
place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import BadFraction, BadInput, BadOption, GpupoolError
from gpupool.client.submission import job_body

GIB = 1 << 30
WHOLE = """
name: train
topology: rack,preferred
roles:
  - name: launcher
    launcher: true
    share: {gpu: 0.1, memory: 1GiB, cpus: 2, host_memory: 4GiB}
    command: mpirun -n 8 ./train
groups:
  - name: workers
    topology: block
    roles:
      - {name: worker, members: 8, min: 4, share: {gpu: 1, count: 2, topology: nvlink}, command: [sleep, 60]}
"""


def gang(path: Path, text: str, *command: str) -> dict[str, Any]:
    path.write_text(text)
    body = job_body(list(command), gang_file=str(path), local=False)
    return body


def test_roles_groups_shares_and_commands_become_the_request(tmp_path: Path) -> None:
    body = gang(tmp_path / "gang.yaml", WHOLE)
    assert (body["name"], body["launch"]["argv"]) == ("train", ["mpirun", "-n", "8", "./train"])
    launcher, workers = body["gang"]["parts"]
    assert body["gang"]["within"] == {"preferred": "rack"}
    assert (launcher["launcher"], launcher["count"], launcher["argv"][0]) == (True, 1, "mpirun")
    assert launcher["shape"] == {
        "gpu_milli": 100, "count": 1, "memory_bytes": GIB, "memory_typed": "1GiB",
        "cpu_milli": 2000, "host_bytes": 4 * GIB,
    }  # fmt: skip
    assert workers["within"] == {"required": "block"}
    (worker,) = workers["parts"]
    assert (worker["count"], worker["minimum"], worker["argv"]) == (8, 4, ["sleep", "60"])
    assert worker["shape"]["within"] == {"required": "nvlink"}


def test_a_role_without_a_command_or_share_has_those_of_the_command_line(tmp_path: Path) -> None:
    body = gang(tmp_path / "gang.yaml", "roles: [{name: a, members: 2}]", "train.py", "-x")
    assert body["gang"] == {"name": "gang", "parts": [{"name": "a", "count": 2, "launcher": False}]}
    assert body["launch"]["argv"] == ["train.py", "-x"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "roles: [{name: a, members: 0}]",
            BadInput,
            "gang.yaml: roles[0].members: input should be greater",
        ),
        ("roles: [{name: a, count: 2}]", BadInput, "gang.yaml: roles[0].count: is not known here"),
        ("roles: [{members: 2}]", BadInput, "gang.yaml: roles[0].name: field required"),
        (
            "groups: [{roles: [{name: a, share: {gpu: 1.5}}]}]",
            BadFraction,
            "groups[0].roles[0].share: --gpu 1.5",
        ),
        ("roles: [{name: a, members: 2, min: 3}]", BadInput, "roles[0].min: 3 of 2 members"),
        ("roles: []", BadInput, "group gang has neither roles nor groups"),
        (
            "topology: rack,perhaps\nroles: [{name: a}]",
            BadOption,
            "topology: --topology 'rack,perhaps'",
        ),
        ("[1, 2]", BadInput, "gang.yaml: the file: input should be"),
        ("a: [", BadInput, "gang.yaml is no YAML"),
        ("roles: [{name: a}]", BadInput, "no command is given"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_the_file(
    tmp_path: Path, text: str, error: type[GpupoolError], message: str
) -> None:
    with pytest.raises(error) as found:
        gang(tmp_path / "gang.yaml", text)
    assert message in found.value.message


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match="/nowhere cannot be read"):
        job_body(["x"], gang_file="/nowhere", local=False)


def test_a_number_of_members_is_one_role() -> None:
    body = job_body(["x"], gang="8", gang_min="4", topology="rack", local=False)
    role = {"name": "member", "count": 8, "minimum": 4}
    assert body["gang"] == {"name": "gang", "parts": [role], "within": {"required": "rack"}}
    assert "within" not in body["shape"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gang_min": "2"}, "--gang-min without --gang"),
        ({"gang": "2", "gang_min": "3"}, "--gang-min 3"),
        ({"gang": "0"}, "--gang 0"),
        ({"gang": "2", "array": "2"}, "a gang is neither an array nor attached"),
        ({"gang": "2", "topology": "nvlink"}, "--topology nvlink is inside a node"),
        ({"gang": "2", "gang_file": "x"}, "--gang-file says how many"),
        ({"cpus": "0"}, "--cpus 0"),
        ({"cpus": "x"}, "--cpus x"),
        ({"cpus": "1.2345"}, "--cpus 1.2345"),
        ({"topology": ",preferred"}, "--topology ',preferred'"),
    ],
)
def test_options_that_make_no_sense_are_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption) as found:
        job_body(["x"], local=False, **asked)  # type: ignore[arg-type]
    assert message in found.value.message


def test_processors_and_main_memory_of_the_node_go_with_the_share() -> None:
    shape = job_body(["x"], cpus="0.5", host_memory="8GiB", topology="numa", local=False)["shape"]
    assert (shape["cpu_milli"], shape["host_bytes"], shape["within"]) == (
        500,
        8 * GIB,
        {"required": "numa"},
    )
