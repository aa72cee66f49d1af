"""`gpupool import` needs no pool, tells every guess, and names the line of what it refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from gpupool.cli.main import main
from gpupool.client.yaml_text import MOST_VALUES
from gpupool.dialects.manifests.reading import understand_pod
from tests.unit.cli.golden import compare

SAMPLES = Path(__file__).parent / "imports"
LINES = {
    "import-hami": "import hami.yaml",
    "import-hami-explain": "import hami.yaml --explain",
    "import-hami-explain-facts": "import hami.yaml --explain --node-facts facts.yaml",
    "import-hami-json": "import hami.yaml -o json",
    "import-kai": "import kai.yaml",
    "import-kai-explain": "import kai.yaml --explain",
    "import-mpijob": "import mpijob.yaml",
    "import-mpijob-explain": "import mpijob.yaml --explain",
    "import-wrong": "import wrong.yaml",
    "import-slurm": "import job.sh --node-facts facts.yaml",
    "import-slurm-explain": "import job.sh --node-facts facts.yaml --explain",
    "import-slurm-unknown": "import job.sh",
    "import-nothing": "import nothing.yaml",
}


@pytest.fixture(autouse=True)
def _among_the_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(SAMPLES)
    monkeypatch.setenv("GPUPOOL_STATE_DIR", str(tmp_path / "none"))


@pytest.mark.parametrize("name", LINES)
def test_output_says_what_it_said(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(LINES[name].split())
    said = capsys.readouterr()
    parts = [
        said.out,
        f"--- stderr\n{said.err}" if said.err else "",
        f"--- exit {code}\n" if code else "",
    ]
    compare(name, f"$ gpupool {LINES[name]}\n" + "".join(parts))
    assert not (tmp_path / "none").exists()


def test_what_is_printed_is_a_manifest_that_means_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", "hami.yaml"]) == 0
    service, deployment = yaml.safe_load_all(capsys.readouterr().out)
    before = yaml.safe_load_all((SAMPLES / "hami.yaml").read_text())
    assert service == next(before)
    old, new = next(before)["spec"]["template"], deployment["spec"]["template"]
    assert [one.ask.without_remarks for one in understand_pod(new, strict=True).containers] == [
        one.ask.without_remarks for one in understand_pod(old).containers
    ]


def test_json_and_yaml_are_the_normal_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "mpijob.yaml", "-o", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["role"], told["replicas"], told["line"]) == (
        "MPIJob",
        "Worker",
        4,
        17,
    )
    assert told["containers"][0]["dialects"] == ["native", "vcuda"]
    assert told["pod"]["gang"] == {"name": "train", "minimum": 4, "size": 4}
    assert main(["import", "mpijob.yaml", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == [told]


def test_standard_input_is_a_file_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO((SAMPLES / "kai.yaml").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["import", "-", "--explain"]) == 0
    assert capsys.readouterr().out.startswith("-:2  Pod gpu-sharing-non-default  (1 pod)")


def test_a_manifest_without_cards_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(
        "kind: Service\nmetadata: {name: x}\n---\n\n---\nkind: ConfigMap\n"
    )
    assert main(["import", str(tmp_path / "s.yaml")]) == 0
    said = capsys.readouterr()
    assert list(yaml.safe_load_all(said.out)) == [
        {"kind": "Service", "metadata": {"name": "x"}},
        {"kind": "ConfigMap"},
    ]
    assert "asks for a card" in said.err
    assert main(["import", str(tmp_path / "s.yaml"), "--explain"]) == 0
    assert "asks for a card" in capsys.readouterr().out


def test_an_lsf_script_is_the_line_to_type(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "l.sh").write_text(
        '#!/bin/sh\n#BSUB -J x\n#BSUB -gpu "num=2:mode=exclusive_process"\n./x\n'
    )
    assert main(["import", str(tmp_path / "l.sh")]) == 0
    assert capsys.readouterr().out == f"gpupool submit --gpu 2 --name x -- bash {tmp_path}/l.sh\n"


def test_a_configuration_of_dstack_is_the_line_to_type(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / ".dstack.yml"
    file.write_text("type: task\nname: t\nresources:\n  gpu: A100:80GB:2\ncommands: [./t]\n")
    assert main(["import", str(file)]) == 0
    assert (
        capsys.readouterr().out == "gpupool submit --gpu 2 --model A100-80G --name t -- sh -c ./t\n"
    )
    file.write_text("type: task\nresources:\n  cpu: 2\n  gpu: A100:24GB\n")
    assert main(["import", str(file)]) == 2
    assert f"{file}:4: gpu name=A100:memory=24GB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "GP-1040: {}:1: this is no YAML"),
        ("kind: Pod\n  x: 1", "GP-1040: {}:2: this is no YAML"),
        ("- 1\n", "GP-1040: {}:1: the pod should be a mapping, and is list"),
        ("apiVersion: v1\n", "GP-1040: {}:1: the document has no kind"),
        ("kind: Pod\nspec:\n  containers: 3\n", "GP-1040: {}:3: spec.containers should be a list"),
        (
            "kind: Pod\nspec: {nodeName: n1, containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}",
            "GP-2017: {}:2: nodeName",
        ),
        ("? [a]\n: b\n", "GP-1040: {}"),
        ("!!python/object:os.system x", "GP-1040: {}:1: this is no YAML"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_line(
    text: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert main(["import", str(file)]) in (2, 3)
    assert says.format(file) in capsys.readouterr().err


def test_a_word_of_no_system_is_refused_in_strict_mode_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "kind: Pod\nspec:\n  containers:\n  - resources:\n      limits: {nvidia.com/gpu: 1, nvidia.com/gpumemm: 1}\n"
    )
    assert main(["import", str(file), "--explain"]) == 0
    assert "did you mean nvidia.com/gpumem?" in capsys.readouterr().out
    assert main(["import", str(file), "--strict"]) == 2
    assert f"GP-1043: {file}:5: nvidia.com/gpumemm" in capsys.readouterr().err


def test_facts_that_are_none_are_refused_with_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("replicas: 4\ncard_memry: 80GiB\n")
    assert main(["import", "hami.yaml", "--node-facts", str(file)]) == 2
    assert f"{file}:2: 'card_memry' is no fact about a node" in capsys.readouterr().err


def test_a_bomb_of_aliases_is_refused_before_it_goes_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    assert main(["import", str(file)]) == 2
    assert f"means more than {MOST_VALUES} values" in capsys.readouterr().err
    file.write_text("kind: Pod\nspec: &s\n  inner: *s\n")
    assert main(["import", str(file)]) == 2
    assert f"means more than {MOST_VALUES} values" in capsys.readouterr().err
