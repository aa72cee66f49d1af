"""The Helm chart: it is what `install` writes, it lints, and a real API server takes what it makes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.kubernetes import __main__ as parts
from gpupool.kubernetes import install, slots
from gpupool.kubernetes.settings import Settings
from gpupool.scheduling.victims import GENTLE
from tests.support.cluster.build import HELM, build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gpupool"
SPACE = "cards"
SERVER = "1.36"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def helm() -> str:
    return str(build(print, [HELM]) / "helm")


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(helm: str, *more: str) -> list[dict[str, Any]]:
    text = ran(helm, "template", "gpupool", str(CHART), "-n", SPACE, "--kube-version", SERVER, *more)
    return [made for made in yaml.safe_load_all(text) if made]


def named(made: dict[str, Any]) -> tuple[str, str]:
    return made["kind"], made["metadata"]["name"]


def one(helm: str, kind: str, name: str, *more: str) -> dict[str, Any]:
    (found,) = [made for made in rendered(helm, *more) if named(made) == (kind, name)]
    return found


def test_helm_finds_nothing_wrong(helm: str) -> None:
    assert "0 chart(s) failed" in ran(helm, "lint", "--strict", str(CHART))


def test_it_makes_what_install_makes(helm: str) -> None:
    """But for the namespace, which helm itself makes."""
    chart = {named(made): made for made in rendered(helm)}
    for made in install.objects(SPACE):
        if made["kind"] != "Namespace":
            assert chart.pop(named(made)) == made
    webhook = install.webhook(SPACE)
    assert chart.pop(named(webhook)) == webhook
    programs = {("Deployment", install.CONTROLLER), ("Deployment", install.WEBHOOK), ("DaemonSet", install.AGENT)}
    service = {("Service", install.WEBHOOK)}
    hook = {(kind, "gpupool-uninstall") for kind in ("Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")}
    assert set(chart) == programs | service | hook


def test_every_argument_is_one_that_the_program_knows(helm: str) -> None:
    values = ("--set", "agent.sim=4xL40S", "--set", "settings.preemption.enabled=false")
    controller = one(helm, "Deployment", install.CONTROLLER, *values)["spec"]["template"]["spec"]["containers"][0]
    admits = one(helm, "Deployment", install.WEBHOOK, *values)["spec"]["template"]["spec"]["containers"][0]
    agent, plugin = one(helm, "DaemonSet", install.AGENT, *values)["spec"]["template"]["spec"]["containers"]
    places, takes = (Settings.parse(parts._parser().parse_args(each["args"]).settings) for each in (controller, admits))
    assert places == takes == replace(Settings(), preemption=replace(GENTLE, enabled=False))
    read = parts._parser().parse_args(agent["args"])
    assert (read.sim, read.namespace) == ("4xL40S", SPACE)
    told = dict(word.lstrip("-").split("=", 1) for word in plugin["args"])
    assert told == {"agent": str(read.socket), "plugins": str(read.plugins), "count": str(read.slots)}
    assert plugin["command"][-1] == slots.__name__


def test_values_come_where_people_expect_them(helm: str, tmp_path: Path) -> None:
    values = {
        "image": {"registry": "registry.local:5000", "tag": "dev"},
        "imagePullSecrets": [{"name": "secret"}],
        "agent": {"nodeSelector": {"card": "yes"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    spec = one(helm, "DaemonSet", install.AGENT, "-f", str(file))["spec"]["template"]["spec"]
    assert {each["image"] for each in spec["containers"]} == {"registry.local:5000/gpupool/gpupool:dev"}
    assert (spec["imagePullSecrets"], spec["nodeSelector"]) == ([{"name": "secret"}], {"card": "yes"})
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Another namespace than that of the other tests, so its policies would be about other accounts."""
    with session_cluster(print) as running:
        running.simulate_nodes(2, prefix="cards")
        running.admin().until("/api/v1/namespaces/default/serviceaccounts/default", bool)
        yield running


def test_an_install_schedules_its_pods_and_its_account_for_uninstalling_may_do_that(
    helm: str, own_cluster: Cluster
) -> None:
    admin, config = own_cluster.admin(), ("--kubeconfig", str(own_cluster.kubeconfig))
    command = (helm, "upgrade", "--install", "gpupool", str(CHART), "-n", SPACE, "--create-namespace", *config)
    ran(*command)
    ran(*command)
    placed = lambda found: sum(bool(p["spec"].get("nodeName")) for p in found["items"]) == 6  # noqa: E731
    admin.until(f"/api/v1/namespaces/{SPACE}/pods", placed)
    for made in install.objects(SPACE):
        assert admin.find(install.path_of(made)) is not None
    admin.delete(install.path_of(install.webhook()))  # its pods are on nodes without a kubelet: nobody answers
    admin.create(PODS, fresh(pod("waits", {"main": asking(16, 1000, None)})))
    (role,) = [each for each in rendered(helm) if named(each) == ("ClusterRole", "gpupool-uninstall")]
    access = own_cluster.access()
    access.service_account(SPACE, "gpupool-uninstall", role["rules"])
    token = access.token(SPACE, "gpupool-uninstall")
    account = People(access.kubeconfig("uninstall.kubeconfig", token))
    account.ok("uninstall", "--yes", "--keep-objects", "--pool-namespace", SPACE)
    assert admin.get(f"{PODS}/waits")["spec"].get("schedulingGates") is None
    ran(helm, "uninstall", "gpupool", "-n", SPACE, "--no-hooks", *config)
    for made in install.objects(SPACE):
        if made["kind"] != "Namespace":
            admin.until_gone(install.path_of(made))
