"""What the Helm chart puts into a cluster, from `install.objects`, so that both ways of installing
are one.

The namespace is the release's: a word that stands for it is replaced when the chart is rendered.
The namespace itself is helm's to make (`--create-namespace`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import yaml
from generated import ROOT, write_or_check

from gpupool.kubernetes.manifests import crds, install

CHART = ROOT / "deploy" / "helm" / "gpupool"
VALUES = "values.schema.json"
DEPLOY = ROOT / "deploy"
#: Rules and boards that have series on Kubernetes; what they name of a server alone is absent there.
RULES = ("common", "cluster")
BOARDS = ("capacity", "cards", "queue", "tenants")
NAMESPACE = "THE-NAMESPACE-OF-THE-RELEASE"
KUBE_OVN = "THE-NAMESPACE-OF-KUBE-OVN"
MADE = "# Made by `make docs` from gpupool/kubernetes/manifests/install.py; change that instead.\n"


def files() -> dict[str, str]:
    """By name what the chart's files say; the webhook's configuration goes with the webhook."""
    objects = [made for made in install.objects(NAMESPACE) if made["kind"] != "Namespace"]
    parts = {
        "files/objects.yaml": objects,
        "files/native.yaml": install.native(NAMESPACE),
        "files/kube-ovn.yaml": install.kube_ovn(NAMESPACE, KUBE_OVN),
        "files/webhook.yaml": [install.webhook(NAMESPACE)],
    }
    made = {name: MADE + yaml.safe_dump_all(made, sort_keys=False) for name, made in parts.items()}
    return {**made, **_monitoring(), VALUES: _values()}


def _monitoring() -> dict[str, str]:
    """Copies of rules and boards: a chart cannot read files outside of its folder."""
    made = {}
    for name in RULES:
        text = (DEPLOY / "prometheus" / "rules" / f"{name}.yaml").read_text()
        made[f"files/rules/{name}.yaml"] = text
    for name in BOARDS:
        made[f"files/boards/{name}.json"] = (DEPLOY / "grafana" / f"{name}.json").read_text()
    return made


def _values() -> str:
    """The values' schema, written by hand but for the settings, which are those of a PoolSettings
    object."""
    schema = json.loads((CHART / VALUES).read_text())
    (version,) = crds.pool_settings()["spec"]["versions"]
    schema["properties"]["settings"] = _closed(
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    )
    return json.dumps(schema, indent=2) + "\n"


def _closed(part: Any) -> Any:
    """As JSON Schema has it: without Kubernetes' own words, and a property that is not named is
    refused."""
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    closed = {"additionalProperties": False} if "properties" in part else {}
    kept = {
        name: _closed(one) for name, one in part.items() if not name.startswith("x-kubernetes-")
    }
    return kept | closed


if __name__ == "__main__":
    sys.exit(write_or_check({CHART / name: text for name, text in files().items()}))
