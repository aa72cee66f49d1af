"""From wheels to a share in a pod and in the books: image, chart, kubelet, agent, adoption, meter;
and out again."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pool_settings import NAME as SETTINGS_NAME
from gpupool.kubernetes.resources.pool_settings import SETTINGS
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.build import HELM, build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control import Settings
from tests.support.cluster.directory import ClusterError
from tests.support.cluster.images import Image
from tests.support.cluster.machine import ADDRESS
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.pods import has_ended, pod
from tests.support.cluster.session import session_cluster
from tests.support.cluster_books import Books
from tests.support.kube_people import People, cluster_admin
from tests.support.product_image import CannotBuildError, image
from tests.support.programs_in_images import PLACE, image_of

pytestmark = pytest.mark.root

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "gpupool"
REPOSITORY, TAG = "gpupool.test/gpupool", "built"
SPACE = install.NAMESPACE
PODS = "/api/v1/namespaces/default/pods"
SHARE = {names.GPU_MILLI: "300", names.MEMORY: "8Gi"}
SHARE_FILE = "/run/gpupool/share/share.json"
GPUS = f"{names.GROUP}/gpus"
LIMIT_SECONDS = 240
PROGRAM = Path(__file__).parents[1] / "node" / "takes_memory.c"
FILLS = 200
"""Of 64 MiB each: some milliseconds of a simulated L40S."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return image(f"{REPOSITORY}:{TAG}", tmp_path_factory.mktemp("image"))
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with session_cluster(print, Settings(for_pods=True)) as running:
        yield running


@pytest.fixture(scope="module")
def node(cluster: Cluster, archive: Path) -> RealNode:
    made = cluster.add_real_node(print)
    made.containerd.take(archive)
    archive.unlink()
    return made


@pytest.fixture(scope="module")
def books(
    cluster: Cluster, node: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Books]:
    """A server that pods reach, with a certificate of the rig's own authority; its token is in a
    Secret."""
    pair = cluster.authority.issue("books", "books", names=[ADDRESS])
    with Books(tmp_path_factory.mktemp("books"), address=ADDRESS, pair=pair) as made:
        admin = cluster.admin()
        cluster.access().namespace(SPACE)
        files = {"token": made.token, "ca.crt": cluster.authority.root.certificate}
        data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "gpupool-meter-token"},
            "data": data,
        }
        admin.create(f"/api/v1/namespaces/{SPACE}/secrets", secret)
        admin.close()
        yield made


@pytest.fixture(scope="module")
def program(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = image_of(PROGRAM, tmp_path_factory.mktemp("program"))
    node.containerd.load(made)
    return made


def values(cluster: Cluster, node: RealNode, books: Books, place: Path) -> Path:
    """What differs on the rig from a user's cluster: no registry, no Services, folders of its own,
    no real card."""
    once = {"replicas": 1, "podDisruptionBudget": {"enabled": False}}
    file = place / "values.yaml"
    agent = {
        "sim": "4xL40S",
        "kubeletDir": str(node.kubelet_root),
        "cdiDir": str(node.cdi),
        "hostPropagation": "None",  # the machine may have a root that is no shared mount
        "stateDir": str(cluster.directory / "gpupool-state"),
        "runDir": str(cluster.directory / "gpupool-run"),
    }
    made = {
        "image": {"registry": "", "repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
        "apiServer": {"host": ADDRESS, "port": cluster.directory.port("api")},
        "controller": once,
        "webhook": once,
        "agent": agent,
        "meter": {"enabled": True, "server": books.url, "ca": True},
    }
    file.write_text(json.dumps(made))
    return file


def helm(cluster: Cluster, *words: str) -> None:
    done = type_helm(cluster, *words)
    assert done.returncode == 0, done.stdout + done.stderr + seen(cluster.admin())


def type_helm(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(build(print, [HELM]) / "helm")
    command = (program, *words, "--namespace", SPACE, "--kubeconfig", str(cluster.kubeconfig))
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=2 * LIMIT_SECONDS
    )


def seen(admin: Api) -> str:
    """How our pods are and what they last said, for messages."""
    told = []
    for one in admin.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]:
        told.append(
            json.dumps(
                [
                    one["metadata"]["name"],
                    one["status"].get("containerStatuses"),
                    one["spec"]["nodeName"],
                ]
            )
        )
        for container in one["spec"]["containers"]:
            path = f"/api/v1/namespaces/{SPACE}/pods/{one['metadata']['name']}/log?tailLines=20"
            try:
                told.append(admin.text(f"{path}&container={container['name']}"))
            except RefusedError as error:  # a container that has not begun has no log
                told.append(repr(error))
    told += [
        str(one.get("message")) for one in admin.get(f"/api/v1/namespaces/{SPACE}/events")["items"]
    ]
    return "\n".join(told)


def until(admin: Api, path: str, holds: Callable[[Object], object]) -> Object:
    try:
        return admin.until(path, lambda found: bool(holds(found)), LIMIT_SECONDS)
    except ClusterError as error:
        raise AssertionError(f"{error}\n{seen(admin)}") from None


def create(
    admin: Api, name: str, limits: dict[str, str], command: tuple[str, ...], **spec: object
) -> Object:
    return admin.create(PODS, pod(name, command=command, limits=limits, **spec))


def refused_while_cards_are_busy(cluster: Cluster, admin: Api, wait: tuple[str, ...]) -> None:
    """Helm uninstalls nothing while a pod has a card, and says which; no pod gets cards from then
    on."""
    create(admin, "holds", SHARE, ("/bin/sleep", "600"))
    until(admin, f"{PODS}/holds", lambda found: found["status"].get("phase") == "Running")
    refused = type_helm(cluster, "uninstall", "gpupool", *wait)
    told = refused.stdout + refused.stderr
    assert (refused.returncode != 0, "job gpupool-uninstall failed" in told) == (True, True), told
    reason = "GP-2008: 1 pods run on cards of the pool: default/holds"
    (job,) = admin.get(
        f"/api/v1/namespaces/{SPACE}/pods?labelSelector=job-name%3Dgpupool-uninstall"
    )["items"]
    log = admin.text(f"/api/v1/namespaces/{SPACE}/pods/{job['metadata']['name']}/log")
    assert reason in log
    assert reason in told
    assert admin.get(f"{SETTINGS}/{SETTINGS_NAME}")["spec"]["placing"] is False
    create(admin, "later", SHARE, ("/bin/true",))
    until(
        admin,
        f"{PODS}/later",
        lambda found: "placing: false" in json.dumps(found["status"].get("conditions")),
    )
    assert admin.get(f"{PODS}/holds")["status"]["phase"] == "Running"
    for name in ("holds", "later"):
        admin.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        admin.until_gone(f"{PODS}/{name}")


def test_the_chart_serves_a_pod_its_share_and_goes_without_leaving_anybody_behind(
    cluster: Cluster, node: RealNode, books: Books, program: Image, tmp_path: Path
) -> None:
    admin = cluster.admin()
    file = values(cluster, node, books, tmp_path)
    wait = ("--wait", "--timeout", f"{LIMIT_SECONDS}s")
    helm(
        cluster,
        "upgrade",
        "--install",
        "gpupool",
        str(CHART),
        "--create-namespace",
        "-f",
        str(file),
        *wait,
    )
    until(
        admin,
        f"{ledger.NODES}/{NAME}",
        lambda found: len(found.get("status", {}).get("cards", ())) == 4,
    )
    assert admin.get(f"{ledger.NODES}/{NAME}")["spec"]["mode"] == "observe"

    people = People(cluster_admin(cluster))
    people.ok("doctor")
    people.ok("adopt", NAME, "--yes")
    create(admin, "share", SHARE, ("/bin/sh", "-c", f"cat {SHARE_FILE}; sleep 2"))
    ended = until(admin, f"{PODS}/share", has_ended)
    assert ended["status"]["phase"] == "Succeeded", ended["status"]
    (card,) = json.loads(admin.text(f"{PODS}/share/log"))["devices"]
    assert (card["gpu_milli"], card["memory_bytes"]) == (300, 8 << 30)
    assert card["uuid"] in ended["metadata"]["annotations"][names.PLACED]

    (over,) = until(admin, f"{ledger.NODES}/{NAME}", lambda found: found["spec"].get("ended"))[
        "spec"
    ]["ended"]
    held = 300 * (over["endedNs"] // 10**9 - over["heldNs"] // 10**9)
    assert held >= 600
    until(
        admin,
        f"{ledger.NODES}/{NAME}",
        lambda found: names.METERED in found["metadata"].get("annotations", {}),
    )
    report = books.pool.json("report", "--by", "job,project")
    (row,) = [row for row in report["rows"] if row["job_name"] == "default/share"]
    assert (row["project"], row["card_milliseconds"], report["closes"]) == ("default", held, True)
    assert (over["gpuMs"], row["delivered_gpu_milliseconds"]) == (0, 0)
    busy_pod = pod("busy", command=(PLACE, "64", "1", str(FILLS)), limits=SHARE)
    busy_pod["spec"]["containers"][0]["image"] = program.name
    admin.create(PODS, busy_pod)
    assert until(admin, f"{PODS}/busy", has_ended)["status"]["phase"] == "Succeeded"

    def busy() -> list[Object]:
        report = books.pool.json("report", "--by", "job")
        return [row for row in report["rows"] if row["job_name"] == "default/busy"]

    until(
        admin,
        f"{ledger.NODES}/{NAME}",
        lambda _: any(row["delivered_gpu_milliseconds"] for row in busy()),
    )
    (row,) = busy()
    assert row["delivered_gpu_milliseconds"] >= FILLS
    parts = (row["kept_gpu_milliseconds"], row["borrowed_gpu_milliseconds"])
    assert sum(parts) == row["delivered_gpu_milliseconds"]
    assert row["denied_gpu_milliseconds"] >= 0

    create(admin, "never", {GPUS: "1"}, ("/bin/true",), nodeSelector={"card": "of-another-kind"})
    assert admin.get(f"{PODS}/never")["spec"]["schedulingGates"]
    refused_while_cards_are_busy(cluster, admin, wait)
    helm(cluster, "uninstall", "gpupool", *wait)
    assert not admin.get(f"{PODS}/never")["spec"].get("schedulingGates")
    for made in (*install.objects(), install.webhook()):
        if made["kind"] != "Namespace":
            admin.until_gone(install.path_of(made))
    capacity = admin.get(f"/api/v1/nodes/{NAME}")["status"]["capacity"]
    assert not {names.GPU_MILLI, names.MEMORY} & capacity.keys()
    create(admin, "plain", {}, ("/bin/true",))
    assert until(admin, f"{PODS}/plain", has_ended)["status"]["phase"] == "Succeeded"
    admin.close()
