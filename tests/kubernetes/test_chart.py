"""The Helm chart: it is what `install` writes, it lints, and a real API server takes what it
makes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.kubernetes import slots
from gpupool.kubernetes.arguments import build_parser
from gpupool.kubernetes.manifests import install, native_policy
from gpupool.kubernetes.resources.pool_settings import Settings
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES
from tests.support.cluster.build import HELM, build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gpupool"
SPACE = "cards"
SERVER = "1.36"
KIND = "MutatingAdmissionPolicy"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def helm() -> str:
    return str(build(print, [HELM]) / "helm")


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(helm: str, *more: str) -> list[dict[str, Any]]:
    text = ran(
        helm, "template", "gpupool", str(CHART), "-n", SPACE, "--kube-version", SERVER, *more
    )
    return [made for made in yaml.safe_load_all(text) if made]


def named(made: dict[str, Any]) -> tuple[str, str]:
    return made["kind"], made["metadata"]["name"]


def one(helm: str, kind: str, name: str, *more: str) -> dict[str, Any]:
    (found,) = [made for made in rendered(helm, *more) if named(made) == (kind, name)]
    return found


def test_helm_finds_nothing_wrong(helm: str) -> None:
    assert "0 chart(s) failed" in ran(helm, "lint", "--strict", str(CHART))


def test_networks_of_tenants_are_switched_on_by_one_value(helm: str) -> None:
    """Rights, the policy and the controller's option come together."""
    enabled = ("--set", "kubeOvn.enabled=true", "--set", "kubeOvn.namespace=networks")
    chart = {named(made): made for made in rendered(helm, *enabled)}
    wanted = install.kube_ovn(SPACE, "networks")
    assert set(chart) - {named(made) for made in rendered(helm)} == {named(made) for made in wanted}
    for made in wanted:
        assert chart[named(made)] == made
    template = chart[("Deployment", install.CONTROLLER)]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    options = build_parser("").parse_args([*container["args"]])
    assert options.kube_ovn_namespace == "networks"


def test_who_watches_honours_the_labels_of_tenants(helm: str) -> None:
    enabled = (
        "--set",
        "metrics.serviceMonitor.enabled=true",
        "--set",
        "metrics.serviceMonitor.labels.release=mine",
    )
    assert not [made for made in rendered(helm) if made["kind"] == "ServiceMonitor"]
    for part in ("agent", "controller"):
        monitor = one(helm, "ServiceMonitor", f"gpupool-{part}", *enabled)
        (door,) = monitor["spec"]["endpoints"]
        service = one(helm, "Service", f"gpupool-{part}-metrics", *enabled)
        assert (door["port"], door["honorLabels"], monitor["metadata"]["labels"]["release"]) == (
            "metrics",
            True,
            "mine",
        )
        assert (
            monitor["spec"]["selector"]["matchLabels"].items()
            <= service["metadata"]["labels"].items()
        )
        kind = "DaemonSet" if part == "agent" else "Deployment"
        template = one(helm, kind, f"gpupool-{part}", *enabled)["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ports = [
            port["name"]
            for each in template["spec"]["containers"]
            for port in each.get("ports", ())
        ]
        assert ports == ["metrics"]


def test_rules_are_those_of_the_files_and_lead_to_your_pages(helm: str) -> None:
    prefix = "https://docs.example/gpupool/"
    values = (
        "--set",
        "metrics.rules.enabled=true",
        "--set",
        f"metrics.rules.runbooks={prefix}",
        "--set",
        "metrics.rules.labels.release=mine",
    )
    assert not [made for made in rendered(helm) if made["kind"] == "PrometheusRule"]
    for name in ("common", "cluster"):
        made = one(helm, "PrometheusRule", f"gpupool-{name}", *values)
        assert made["metadata"]["labels"]["release"] == "mine"
        file = CHART.parents[1] / "prometheus" / "rules" / f"{name}.yaml"
        text = file.read_text().replace("runbook_url: ", f"runbook_url: {prefix}")
        assert made["spec"] == yaml.safe_load(text)


def test_boards_are_config_maps_for_the_sidecar_of_grafana(helm: str) -> None:
    values = ("--set", "metrics.boards.enabled=true")
    assert not [made for made in rendered(helm) if made["kind"] == "ConfigMap"]
    for name in ("capacity", "cards", "queue", "tenants"):
        made = one(helm, "ConfigMap", f"gpupool-board-{name}", *values)
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        file = CHART.parents[1] / "grafana" / f"{name}.json"
        assert json.loads(made["data"][f"gpupool-{name}.json"]) == json.loads(file.read_text())


def test_it_makes_what_install_makes(helm: str) -> None:
    """But for the namespace, which helm itself makes."""
    chart = {named(made): made for made in rendered(helm)}
    for made in install.objects(SPACE):
        if made["kind"] != "Namespace":
            assert chart.pop(named(made)) == made
    webhook = install.webhook(SPACE)
    assert chart.pop(named(webhook)) == webhook
    programs = {
        ("Deployment", install.CONTROLLER),
        ("Deployment", install.WEBHOOK),
        ("DaemonSet", install.AGENT),
    }
    service = {("Service", install.WEBHOOK)}
    budgets = {
        ("PodDisruptionBudget", install.CONTROLLER),
        ("PodDisruptionBudget", install.WEBHOOK),
    }
    hook = {
        (kind, "gpupool-uninstall")
        for kind in ("Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    }
    assert set(chart) == programs | service | budgets | hook


def test_native_pods_are_admitted_inside_an_api_server_that_can(helm: str) -> None:
    chart = {
        named(made): made
        for made in rendered(helm, "--api-versions", f"{native_policy.VERSION}/{KIND}")
    }
    for made in install.native(SPACE):
        assert chart[named(made)] == made
    assert not [made for made in rendered(helm) if made["kind"].startswith(KIND)]


def test_the_meter_runs_where_it_is_asked_for_and_what_ended_is_kept_only_then(helm: str) -> None:
    values = (
        "--set",
        "meter.enabled=true",
        "--set",
        "meter.server=https://books:8443",
        "--set",
        "meter.ca=true",
    )
    meter = one(helm, "Deployment", install.METER, *values)["spec"]["template"]["spec"]
    (container,) = meter["containers"]
    read = build_parser("").parse_args(container["args"])
    assert (read.part, read.server, meter["serviceAccountName"]) == (
        "meter",
        "https://books:8443",
        install.METER,
    )
    (mounted,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "token"]
    assert {str(read.token_file.parent), str(Path(read.ca_file).parent)} == {mounted}
    for more, metered in (((), False), (values, True)):
        controller = one(helm, "Deployment", install.CONTROLLER, *more)["spec"]["template"]["spec"][
            "containers"
        ][0]
        assert build_parser("").parse_args(controller["args"]).metered is metered
    assert not [made for made in rendered(helm) if named(made) == ("Deployment", install.METER)]


def test_every_argument_is_one_that_the_program_knows(helm: str) -> None:
    values = ("--set", "agent.sim=4xL40S", "--set", "settings.preemption.enabled=false")
    controller = one(helm, "Deployment", install.CONTROLLER, *values)["spec"]["template"]["spec"][
        "containers"
    ][0]
    admits = one(helm, "Deployment", install.WEBHOOK, *values)["spec"]["template"]["spec"][
        "containers"
    ][0]
    agent, plugin = one(helm, "DaemonSet", install.AGENT, *values)["spec"]["template"]["spec"][
        "containers"
    ]
    places, takes = (
        Settings.parse(build_parser("").parse_args(each["args"]).settings)
        for each in (controller, admits)
    )
    assert (
        places
        == takes
        == replace(Settings(), preemption=replace(DEFAULT_PREEMPTION_RULES, enabled=False))
    )
    read = build_parser("").parse_args(agent["args"])
    assert (read.sim, read.namespace) == ("4xL40S", SPACE)
    told = dict(word.lstrip("-").split("=", 1) for word in plugin["args"])
    assert told == {
        "agent": str(read.socket),
        "plugins": str(read.plugins),
        "count": str(read.slots),
    }
    assert plugin["command"][-1] == slots.__name__


VALUES = {
    "registry": {
        "image": {"registry": "registry.local:5000", "tag": "dev"},
        "imagePullSecrets": [{"name": "secret"}],
        "agent": {
            "nodeSelector": {"card": "yes"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    },
    "parent": {
        "global": {"imageRegistry": "mirror.bank", "imagePullSecrets": [{"name": "of-all"}]},
        "image": {"digest": f"sha256:{'a' * 64}"},
        "imagePullSecrets": [{"name": "mine"}],
    },
    "small": {
        "controller": {
            "replicas": 1,
            "podDisruptionBudget": {"enabled": False},
            "priorityClassName": "",
        },
        "webhook": {"replicas": 1, "podDisruptionBudget": {"enabled": False}},
        "settings": {"dialects": ["native", "hami"]},
        "agent": {"sim": "4xL40S"},
        "uninstall": {"ungate": False},
    },
    "hosts": {
        "apiServer": {"host": "10.0.0.1", "port": 6443},
        "webhook": {"hostNetwork": True, "port": 10443, "podAnnotations": {"note": "mine"}},
        "controller": {"extraArgs": ["--alone"], "podLabels": {"team": "ml"}},
        "settings": {"policy": "binpack", "replaceSeconds": 0},
        "agent": {"kubeletDir": "/data/kubelet", "slots": 64, "priorityClassName": "mine"},
    },
}


@pytest.fixture(params=VALUES)
def values(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """(name, file)."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(VALUES[request.param]))
    return request.param, str(file)


def programs(helm: str, file: str) -> dict[str, dict[str, Any]]:
    """By name, the pods of what is not there once."""
    kinds = ("Deployment", "DaemonSet", "Job")
    made = [one for one in rendered(helm, "-f", file) if one["kind"] in kinds]
    return {one["metadata"]["name"]: one["spec"]["template"] for one in made}


def test_values_of_several_kinds_of_cluster_lint_render_and_are_understood(
    helm: str, values: tuple[str, str]
) -> None:
    name, file = values
    assert "0 chart(s) failed" in ran(helm, "lint", "--strict", str(CHART), "-f", file)
    pods = programs(helm, file)
    specs = [pod["spec"] for pod in pods.values()]
    images = {container["image"] for spec in specs for container in spec["containers"]}
    secrets = [spec.get("imagePullSecrets") for spec in specs]
    for part in (install.CONTROLLER, install.WEBHOOK, install.AGENT):
        build_parser("").parse_args(pods[part]["spec"]["containers"][0]["args"])
    controller, webhook, agent = (
        pods[one]["spec"] for one in (install.CONTROLLER, install.WEBHOOK, install.AGENT)
    )
    if name == "registry":
        assert images == {"registry.local:5000/gpupool/gpupool:dev"}
        assert secrets == [[{"name": "secret"}]] * 4
        assert (agent["nodeSelector"], agent["tolerations"]) == (
            {"card": "yes"},
            [{"key": "gpu", "operator": "Exists"}],
        )
    elif name == "parent":
        assert images == {f"mirror.bank/gpupool/gpupool@sha256:{'a' * 64}"}
        assert secrets == [[{"name": "mine"}, {"name": "of-all"}]] * 4
    elif name == "small":
        assert "priorityClassName" not in controller
        assert not [
            one
            for one in rendered(helm, "-f", file)
            if one["kind"] in ("PodDisruptionBudget", "Job")
        ]
    else:
        (told,) = {
            str(container["env"])
            for spec in (controller, webhook)
            for container in spec["containers"]
        }
        assert "10.0.0.1" in told
        assert {one["name"]: one.get("value") for one in agent["containers"][0]["env"]}[
            HOST
        ] == "10.0.0.1"
        assert (webhook["hostNetwork"], webhook["containers"][0]["ports"][0]["containerPort"]) == (
            True,
            10443,
        )
        assert "--alone" in controller["containers"][0]["args"]
        assert pods[install.CONTROLLER]["metadata"]["labels"]["team"] == "ml"
        assert pods[install.WEBHOOK]["metadata"]["annotations"] == {"note": "mine"}
        folders = {one["hostPath"]["path"] for one in agent["volumes"]}
        assert folders >= {"/data/kubelet/pod-resources", "/var/lib/kubelet/device-plugins"}
        assert agent["priorityClassName"] == "mine"


HOST = "KUBERNETES_SERVICE_HOST"


def test_by_default_pods_are_as_small_in_rights_as_their_work_allows(
    helm: str, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("{}")
    pods = programs(helm, str(empty))
    for name in (install.CONTROLLER, install.WEBHOOK, "gpupool-uninstall"):
        (container,) = pods[name]["spec"]["containers"]
        assert container["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
    for container in pods[install.AGENT]["spec"]["containers"]:
        assert container["securityContext"] == {
            "privileged": True,
            "runAsUser": 0,
        }  # the image's user is nobody's
    assert "--sim" not in str(pods[install.AGENT])


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("agnet.sim=4xL40S", "agnet"),
        ("agent.slot=3", "slot"),
        ("controller.replicas=0", "replicas"),
        ("settings.dialects={natve}", "dialects"),
        ("settings.polcy=binpack", "polcy"),
        ("metrics.rules.enable=true", "enable"),
        ("metrics.boards.labels=wide", "labels"),
        ("image.digest=latest", "digest"),
        ("agent.cdiDir=cdi", "cdiDir"),
    ],
)
def test_a_value_that_is_misspelt_or_makes_no_sense_is_refused(
    helm: str, word: str, why: str
) -> None:
    command = (helm, "template", "gpupool", str(CHART), "--set", word)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert why in done.stderr


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Another namespace than that of the other tests, so its policies would be about other
    accounts."""
    with session_cluster(print) as running:
        running.simulate_nodes(2, prefix="cards")
        running.admin().until("/api/v1/namespaces/default/serviceaccounts/default", bool)
        yield running


def test_the_notes_say_what_comes_next(helm: str, own_cluster: Cluster) -> None:
    config = ("--kubeconfig", str(own_cluster.kubeconfig))

    def notes(*words: str) -> str:
        command = (
            helm,
            "install",
            "gpupool",
            str(CHART),
            "-n",
            SPACE,
            "--dry-run=client",
            *words,
            *config,
        )
        return ran(*command).partition("NOTES:")[2]

    plain = notes()
    assert "kubectl gpupool adopt NODE --dry-run" in plain
    assert f"doctor --pool-namespace {SPACE}" in plain
    assert "simulated" not in plain
    more = notes("--set", "agent.sim=4xL40S,uninstall.ungate=false,webhook.replicas=1")
    for said in ("simulated (4xL40S", "would leave pods at the gate", "One replica of the webhook"):
        assert said in more


def test_an_install_schedules_its_pods_and_its_account_for_uninstalling_may_do_that(
    helm: str, own_cluster: Cluster
) -> None:
    admin, config = own_cluster.admin(), ("--kubeconfig", str(own_cluster.kubeconfig))
    command = (
        helm,
        "upgrade",
        "--install",
        "gpupool",
        str(CHART),
        "-n",
        SPACE,
        "--create-namespace",
        *config,
    )
    ran(*command)
    ran(*command)
    placed = lambda found: sum(bool(p["spec"].get("nodeName")) for p in found["items"]) == 6  # noqa: E731
    admin.until(f"/api/v1/namespaces/{SPACE}/pods", placed)
    for made in install.objects(SPACE):
        assert admin.find(install.path_of(made)) is not None
    admin.delete(
        install.path_of(install.webhook())
    )  # its pods are on nodes without a kubelet: nobody answers
    admin.create(PODS, fresh(pod("waits", {"main": asking(16, 1000, None)})))
    (role,) = [
        each for each in rendered(helm) if named(each) == ("ClusterRole", "gpupool-uninstall")
    ]
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
