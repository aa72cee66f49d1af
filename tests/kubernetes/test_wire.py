"""The product's tables of the kubelet's protocols against the files that the kubelet is made of."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from gpupool.kubernetes.node.grpc import tables
from tests.support.cluster.build import KUBERNETES, find_go

PROTOCOLS = {
    "deviceplugin/v1beta1": tables.DEVICE_PLUGIN,
    "podresources/v1": tables.POD_RESOURCES,
    "pluginregistration/v1": tables.PLUGIN_REGISTRATION,
    "dra/v1": tables.RESOURCE_ALLOCATION,
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
MESSAGE = re.compile(r"^message (\w+)\s*\{(.*?)\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"(repeated |optional |)(map<string,\s*\w+>|\w+)\s+(\w+)\s*=\s*(\d+)\s*;")
SERVICE = re.compile(r"^service (\w+)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"rpc (\w+)\s*\((\w+)\)\s*returns\s*\((stream |)(\w+)\)")
SUFFIXES = {"repeated ": "*", "optional ": "?", "": ""}


@pytest.fixture(scope="module")
def sources() -> Path:
    """The kubelet's own description of what it speaks, of the version that the cluster is built
    from."""
    command = [find_go(), "mod", "download", "-json", "k8s.io/kubelet"]
    told = subprocess.run(
        command, cwd=KUBERNETES.folder, capture_output=True, text=True, check=True
    )
    return Path(json.loads(told.stdout)["Dir"]) / "pkg" / "apis"


def _field(match: re.Match[str]) -> str:
    label, kind, name, number = match.groups()
    if kind.startswith("map<"):
        kind = f"<{kind.removeprefix('map<string,').removesuffix('>').strip()}>"
    return f"{name}={number}:{kind}{SUFFIXES[label]}"


def _words(text: str) -> set[tuple[str, ...]]:
    return {tuple(line.split()) for line in text.splitlines() if line.strip()}


@pytest.mark.parametrize("folder", PROTOCOLS)
def test_every_message_and_call_is_as_the_kubelet_has_it(sources: Path, folder: str) -> None:
    package, messages, calls = PROTOCOLS[folder]
    text = COMMENT.sub("", (sources / folder / "api.proto").read_text())
    assert f"package {package};" in text
    theirs = {(name, *map(_field, FIELD.finditer(body))) for name, body in MESSAGE.findall(text)}
    assert _words(messages) == theirs
    called = {
        (f"{service}/{name}", request, answer + ("*" if streams else ""))
        for service, body in SERVICE.findall(text)
        for name, request, streams, answer in CALL.findall(body)
    }
    assert _words(calls) == called
