"""Where a CUDA runtime is looked for, and what one says when it is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.burn import runtime


def put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return str(path)


def test_the_callers_own_paths_come_before_environments_and_they_before_site_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_list_cached_names", lambda: ["libcudart.so.12"])
    site, env = tmp_path / "site", tmp_path / "env"
    by_site = put(site / "nvidia/cuda_runtime/lib/libcudart.so.12")
    thirteen = put(site / "nvidia/cu13/lib/libcudart.so.13")
    sites = [str(site)]
    assert runtime.find_runtimes({}, sites) == [by_site, thirteen]
    by_env = put(env / "lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12")
    assert runtime.find_runtimes({"VIRTUAL_ENV": str(env)}, sites) == [by_env, thirteen]
    by_path = put(tmp_path / "cuda/libcudart.so.12")
    environ = {"LD_LIBRARY_PATH": f"/nowhere::{tmp_path}/cuda", "VIRTUAL_ENV": str(env)}
    assert runtime.find_runtimes(environ, sites) == [by_path, thirteen]


def test_what_only_the_loader_knows_is_named_without_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "_list_cached_names", lambda: ["libcudart.so.13"])
    assert runtime.find_runtimes({}, []) == ["libcudart.so.13"]


@pytest.mark.parametrize("name", ["libnothing.so.99", "libm.so.6"])
def test_what_is_no_runtime_is_told_in_the_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runtime.main([name]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["path"]) == ("runtime", name)
    assert said["problem"]
