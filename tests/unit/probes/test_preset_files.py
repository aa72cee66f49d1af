"""The machine files that are shipped, and files of users."""

from pathlib import Path

import pytest

from gpupool.base.errors import BadMachine
from gpupool.probes.preset_files import list_presets
from gpupool.probes.simulated import parse_sim

FILES = sorted((Path(__file__).parents[2] / "machines").glob("*.json"))


def test_the_promised_machines_are_shipped() -> None:
    promised = {"1xT4", "4xL40S", "8xA100-40G", "8xH100", "8xH200", "mixed", "two-nodes"}
    assert promised <= set(list_presets())
    assert FILES, "the machines for tests are gone"


def test_a_file_that_is_not_there_or_not_json_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadMachine, match=r"none\.json cannot be read: No such file"):
        parse_sim("none.json")
    (tmp_path / "bad.json").write_bytes(b"\xff{")
    with pytest.raises(BadMachine, match=r"bad\.json is not JSON"):
        parse_sim(str(tmp_path / "bad.json"))


def test_presets_are_listed_by_name() -> None:
    assert "8xH200" in list_presets()
    assert list(list_presets()) == sorted(list_presets())
