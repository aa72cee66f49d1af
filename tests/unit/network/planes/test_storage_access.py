"""Access lists of storage targets: what is compiled, and what of a target is accepted."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpupool.network.planes.model import Evidence, Plane, PlaneDemand, PlaneFacts
from gpupool.network.planes.storage_access import (
    compile_targets,
    find_access_fault,
    list_hosts,
    read_access,
)
from tests.support.planes import CONTENT, NQN, make_facts, make_inventory

ACME = PlaneDemand("acme", Plane.STORAGE)
VOLUME = "nqn.2026-01.example:acme"
(SUBSYSTEM,) = make_inventory().targets[0].subsystems
ANY = "nvmf_subsystem_allow_any_host"


def make_spdk_facts(evidence: str = "") -> PlaneFacts:
    (target,) = CONTENT["storage_targets"]
    inventory = make_inventory(storage_targets=[{**target, "kind": "spdk"}])
    name = "disks.spdk.json"
    known = {name: Evidence(name, evidence, "text", "root", 1)} if evidence else {}
    return make_facts((ACME,), {"node-1": "acme"}, known, inventory)


def find_fault(text: str) -> str:
    return find_access_fault(SUBSYSTEM, [f"{NQN}1"], read_access(text))


def test_only_nodes_of_a_tenant_with_the_demand_are_hosts() -> None:
    facts = make_facts((ACME,), {"node-1": "acme", "node-2": "other"})
    assert list_hosts(facts, "acme") == [f"{NQN}1"]
    assert list_hosts(facts, "other") == []
    assert list_hosts(make_facts((), {"node-1": "acme"}), "acme") == []


def test_the_script_leaves_the_hosts_of_the_tenant_and_no_other(tmp_path: Path) -> None:
    """Run on a directory that has what the kernel's configfs has."""
    volume = tmp_path / "subsystems" / VOLUME
    hosts = volume / "allowed_hosts"
    hosts.mkdir(parents=True)
    (volume / "attr_allow_any_host").write_text("1\n")
    stranger = tmp_path / "hosts" / f"{NQN}9"
    stranger.mkdir(parents=True)
    (hosts / stranger.name).symlink_to(stranger)
    facts = make_facts((ACME,), {"node-1": "acme", "node-2": "acme"})
    (text,) = compile_targets(facts).values()
    script = text.replace("/sys/kernel/config/nvmet", str(tmp_path))
    for _ in range(2):  # the second run changes nothing
        subprocess.run(["sh", "-c", script], check=True)
        assert (volume / "attr_allow_any_host").read_text() == "0\n"
        assert sorted(os.listdir(hosts)) == [f"{NQN}1", f"{NQN}2"]
        assert (hosts / f"{NQN}1").resolve() == tmp_path / "hosts" / f"{NQN}1"


def test_the_script_of_a_tenant_without_nodes_lets_nothing_in(tmp_path: Path) -> None:
    hosts = tmp_path / "subsystems" / VOLUME / "allowed_hosts"
    hosts.mkdir(parents=True)
    (hosts / f"{NQN}1").symlink_to(tmp_path)
    (text,) = compile_targets(make_facts((), {})).values()
    subprocess.run(
        ["sh", "-c", text.replace("/sys/kernel/config/nvmet", str(tmp_path))], check=True
    )
    assert os.listdir(hosts) == []


def test_calls_remove_hosts_that_a_target_was_seen_with() -> None:
    seen = [{"nqn": VOLUME, "allow_any_host": False, "hosts": [{"nqn": f"{NQN}2"}]}]
    (text,) = compile_targets(make_spdk_facts(json.dumps(seen))).values()
    calls = [(call["method"], call["params"]) for call in json.loads(text)]
    assert calls == [
        (ANY, {"nqn": VOLUME, "allow_any_host": False}),
        ("nvmf_subsystem_remove_host", {"nqn": VOLUME, "host": f"{NQN}2"}),
        ("nvmf_subsystem_add_host", {"nqn": VOLUME, "host": f"{NQN}1"}),
    ]
    assert find_fault(text) == ""


def list_subsystems(*hosts: str, any_host: object = False) -> str:
    """As `nvmf_get_subsystems` of SPDK answers."""
    discovery = {"nqn": "nqn.2014-08.org.nvmexpress.discovery", "subtype": "Discovery"}
    access = {} if any_host is None else {"allow_any_host": any_host}
    volume = {"nqn": VOLUME, "subtype": "NVMe", "hosts": [{"nqn": host} for host in hosts]}
    return json.dumps([discovery, {**volume, **access}])


def save_configuration(*hosts: str, **attributes: str) -> str:
    """As `nvmetcli save` writes."""
    volume = {"nqn": VOLUME, "allowed_hosts": list(hosts), "attr": attributes}
    return json.dumps({"hosts": [], "ports": [], "subsystems": [volume]})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (list_subsystems(f"{NQN}1"), ""),
        (list_subsystems(f"{NQN}1", any_host=True), "lets every host into"),
        (list_subsystems(f"{NQN}1", any_host=None), "lets every host into"),
        (list_subsystems(), f"lacks {NQN}1"),
        (list_subsystems(f"{NQN}1", f"{NQN}2"), f"lets {NQN}2 into {VOLUME}"),
        ("[]", f"lacks subsystem {VOLUME}"),
        (save_configuration(f"{NQN}1", allow_any_host="0"), ""),
        (save_configuration(f"{NQN}1", allow_any_host="1"), "lets every host into"),
        (save_configuration(f"{NQN}1"), "lets every host into"),
        ("#!/bin/sh\n", f"lacks subsystem {VOLUME}"),
    ],
)
def test_a_target_is_accepted_only_with_the_hosts_of_the_tenant(text: str, fault: str) -> None:
    found = find_fault(text)
    assert (fault in found) if fault else found == ""


def test_the_compiled_script_is_read_as_what_it_does() -> None:
    (text,) = compile_targets(make_facts((ACME,), {"node-1": "acme"})).values()
    assert find_fault(text) == ""
    assert "lets every host" in find_fault(text.replace("echo 0", "echo 1"))
