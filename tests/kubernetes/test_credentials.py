"""`kubectl gpupool` with kubeconfigs whose credential a program prints, on a real API server."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from gpupool.kubernetes.client.exec_credential import V1, V1BETA1
from tests.support.cluster.cluster import Cluster
from tests.support.kube_people import People

RULES = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def somebody(cluster: Cluster, place: Path, script: str, version: str = V1) -> People:
    """His kubeconfig names a program, which is this script."""
    program = place / "helper"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n{script}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    asks = {
        "apiVersion": version,
        "interactiveMode": "Never",
        "command": str(program),
        "installHint": "get it there",
    }
    return People(cluster.authority.kubeconfig_of(f"exec-{place.name}", {"exec": asks}))


def prints(status: Any, version: str = V1) -> str:
    made = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"print({made!r})"


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_token_that_a_program_prints_is_taken(
    cluster: Cluster, tmp_path: Path, version: str
) -> None:
    access = cluster.access()
    access.service_account("default", "fetched", RULES)
    token = access.token("default", "fetched")
    people = somebody(cluster, tmp_path, prints({"token": token}, version), version)
    assert people.refused("why", "no-such-pod").startswith("gpupool: GP-3003: ")


def test_a_certificate_that_a_program_prints_is_shown(cluster: Cluster, tmp_path: Path) -> None:
    pair = cluster.authority.issue("exec-admin", "admin", "system:masters")
    status = {
        "clientCertificateData": pair.certificate.read_text(),
        "clientKeyData": pair.key.read_text(),
    }
    assert (
        somebody(cluster, tmp_path, prints(status))
        .refused("why", "no-such-pod")
        .startswith("gpupool: GP-3003: ")
    )


def test_what_a_program_says_when_it_fails_is_passed_on(cluster: Cluster, tmp_path: Path) -> None:
    said = somebody(cluster, tmp_path, "sys.exit('session expired')").refused("map")
    assert "ended with 1: session expired\n  get it there" in said
    said = somebody(cluster, tmp_path, prints({"token": "of-yesterday"})).refused("map")
    assert said.startswith("gpupool: GP-2030: Unauthorized")
