"""Compiles the storage plane to access lists of NVMe over fabrics targets, and reads such lists. Pure.

A subsystem of a tenant lets in the NVMe hosts of the tenant's nodes and no other: never every host.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpupool.network.planes.model import Plane, PlaneFacts, StorageTarget, Subsystem

_ROOT: Final = "/sys/kernel/config/nvmet"
_ANY = re.compile(r"^echo (?P<value>[01]) >.*/subsystems/(?P<nqn>[^/]+)/attr_allow_any_host$")
_LINK = re.compile(r"^ln -sfn \S+ \S*/subsystems/(?P<nqn>[^/]+)/allowed_hosts/(?P<host>\S+)$")


@dataclass
class AccessList:
    """Hosts that a subsystem lets in."""

    hosts: set[str] = field(default_factory=set)
    has_any_host: bool = False


def name_target_file(target: StorageTarget) -> str:
    return f"{target.name}.nvmet.sh" if target.kind == "nvmet" else f"{target.name}.spdk.json"


def list_hosts(facts: PlaneFacts, tenant: str) -> list[str]:
    """List the NVMe hosts of the nodes of a tenant that demands the plane."""
    demands = {demand.tenant for demand in facts.list_demands(Plane.STORAGE)}
    if facts.inventory is None or tenant not in demands:
        return []
    nodes = facts.inventory.nodes
    return sorted(node.nqn for node in nodes if node.nqn and facts.owners.get(node.name) == tenant)


def compile_targets(facts: PlaneFacts) -> dict[str, str]:
    """Compile the access lists of every target, by file. Deterministic."""
    files = dict[str, str]()
    for target in facts.inventory.targets if facts.inventory else ():
        name = name_target_file(target)
        if target.kind == "nvmet":
            files[name] = _compile_configfs(facts, target)
        else:
            evidence = facts.evidence.get(name)
            present = read_access("" if evidence is None else evidence.text)
            files[name] = _compile_calls(facts, target, present)
    return files


def read_access(text: str) -> dict[str, AccessList]:
    """Read access lists by subsystem.

    Args:
        text: a compiled file; or what `nvmetcli save` or SPDK's `nvmf_get_subsystems` writes.

    Raises ValueError: it is none of these.
    """
    if text.lstrip().startswith(("[", "{")):
        return _read_document(json.loads(text))
    found = dict[str, AccessList]()
    for line in text.splitlines():
        if match := _ANY.match(line):
            found.setdefault(match["nqn"], AccessList()).has_any_host = match["value"] == "1"
        elif match := _LINK.match(line):
            found.setdefault(match["nqn"], AccessList()).hosts.add(match["host"])
    return found


def find_access_fault(
    subsystem: Subsystem, hosts: Iterable[str], present: Mapping[str, AccessList]
) -> str:
    """Say why a subsystem does not let in the hosts of its tenant alone; empty: it does."""
    has = present.get(subsystem.nqn)
    if has is None:
        return f"lacks subsystem {subsystem.nqn}"
    if has.has_any_host:
        return f"lets every host into {subsystem.nqn}"
    wanted = set(hosts)
    if missing := sorted(wanted - has.hosts):
        return f"lacks {missing[0]} in {subsystem.nqn}"
    if foreign := sorted(has.hosts - wanted):
        return f"lets {foreign[0]} into {subsystem.nqn}"
    return ""


def _compile_configfs(facts: PlaneFacts, target: StorageTarget) -> str:
    lines = [
        "#!/bin/sh",
        f"# Storage plane of {target.name}, by gpupool: access lists of nvmet.",
        "set -e",
    ]
    for subsystem in target.subsystems:
        hosts = list_hosts(facts, subsystem.tenant)
        directory = f"{_ROOT}/subsystems/{subsystem.nqn}"
        lines += [f"# tenant {subsystem.tenant}", f"echo 0 >{directory}/attr_allow_any_host"]
        # Only links that are too much are removed: connections of the others go on.
        cases = " | ".join(map(shlex.quote, hosts))
        lines.append(f"for link in {directory}/allowed_hosts/*; do")
        lines.append('    [ -L "$link" ] || continue')
        if hosts:
            lines.append(f'    case "${{link##*/}}" in {cases}) continue ;; esac')
        lines += ['    rm "$link"', "done"]
        for host in hosts:
            lines.append(f"mkdir -p {_ROOT}/hosts/{host}")
            lines.append(f"ln -sfn {_ROOT}/hosts/{host} {directory}/allowed_hosts/{host}")
    return "\n".join(lines) + "\n"


def _compile_calls(
    facts: PlaneFacts, target: StorageTarget, present: Mapping[str, AccessList]
) -> str:
    calls = list[dict[str, Any]]()

    def add_call(method: str, **parameters: object) -> None:
        call = {"jsonrpc": "2.0", "id": len(calls) + 1, "method": method, "params": parameters}
        calls.append(call)

    for subsystem in target.subsystems:
        nqn = subsystem.nqn
        hosts = list_hosts(facts, subsystem.tenant)
        has = present.get(nqn, AccessList())
        add_call("nvmf_subsystem_allow_any_host", nqn=nqn, allow_any_host=False)
        for host in sorted(has.hosts.difference(hosts)):
            add_call("nvmf_subsystem_remove_host", nqn=nqn, host=host)
        for host in hosts:
            add_call("nvmf_subsystem_add_host", nqn=nqn, host=host)
    return json.dumps(calls, indent=1) + "\n"


def _read_document(document: Any) -> dict[str, AccessList]:
    found = dict[str, AccessList]()
    if isinstance(document, dict):
        # As `nvmetcli save` writes it.
        for one in document.get("subsystems", ()):
            # A subsystem that says nothing may let in everything.
            any_host = str(one.get("attr", {}).get("allow_any_host", "1")) != "0"
            found[one["nqn"]] = AccessList(set(one.get("allowed_hosts", ())), any_host)
        return found
    for one in document:
        if "method" in one:
            _read_call(one["method"], one["params"], found)
        elif one.get("subtype") != "Discovery":
            hosts = {host["nqn"] for host in one.get("hosts", ())}
            found[one["nqn"]] = AccessList(hosts, bool(one.get("allow_any_host", True)))
    return found


def _read_call(method: str, parameters: Mapping[str, Any], found: dict[str, AccessList]) -> None:
    access = found.setdefault(parameters["nqn"], AccessList())
    if method == "nvmf_subsystem_allow_any_host":
        access.has_any_host = parameters["allow_any_host"]
    elif method == "nvmf_subsystem_add_host":
        access.hosts.add(parameters["host"])
    else:
        access.hosts.discard(parameters["host"])
