"""As much of kubectl as the docs' pages type: `kubectl gpupool …` runs the plugin, the rest asks
the API server.

    apply -f FILE | delete -f FILE | get KIND [NAME] | describe KIND NAME | patch KIND NAME --type merge -p JSON

Kinds are looked up as kubectl does it, by what the server says it has.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from gpupool.kubernetes.client.api import APPLY, KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig

GROUPS = ("/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/gpupool.dev/v1alpha1")


def main(words: Sequence[str]) -> int:
    if words[0] == "gpupool":
        os.execv(sys.executable, [sys.executable, "-m", "gpupool.kubernetes.plugin", *words[1:]])
    parser = argparse.ArgumentParser(prog="kubectl")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("apply", "delete"):
        verbs.add_parser(verb).add_argument("-f", dest="file", type=Path, required=True)
    get = verbs.add_parser("get")
    describe = verbs.add_parser("describe")
    patch = verbs.add_parser("patch")
    for one in (get, describe, patch):
        one.add_argument("kind")
    get.add_argument("name", nargs="?", default="")
    describe.add_argument("name")
    patch.add_argument("name")
    patch.add_argument("--type", choices=("merge",), required=True)
    patch.add_argument("-p", dest="body", required=True)
    return asyncio.run(_do(parser.parse_args(words)))


async def _do(asked: argparse.Namespace) -> int:
    async with KubeApi(load_kubeconfig(Path(os.environ["KUBECONFIG"]))) as api:
        if asked.verb in ("apply", "delete"):
            for made in yaml.safe_load_all(asked.file.read_text()):
                await _one(api, asked.verb, made)
            return 0
        path = await _path(api, asked.kind)
        if asked.verb == "patch":
            await api.patch(f"{path}/{asked.name}", yaml.safe_load(asked.body))
            return 0
        found = await api.get(f"{path}/{asked.name}".rstrip("/"))
        if asked.verb == "describe":
            sys.stdout.write(yaml.safe_dump(found, sort_keys=False))
            return 0
        for one in found.get("items", [found]):
            sys.stdout.write(f"{one['metadata']['name']}\n")
        return 0


async def _one(api: KubeApi, verb: str, made: dict[str, Any]) -> None:
    meta = made["metadata"]
    path = await _path(api, made["kind"], meta.get("namespace", "default"))
    if verb == "apply":
        query = {"fieldManager": "kubectl", "force": "true"}
        await api.request("PATCH", f"{path}/{meta['name']}", made, kind=APPLY, query=query)
    else:
        await api.delete(f"{path}/{meta['name']}", {"propagationPolicy": "Background"})
    sys.stdout.write(f"{made['kind'].lower()}/{meta['name']} {verb}\n")


async def _path(api: KubeApi, kind: str, namespace: str = "default") -> str:
    """Where objects of that kind are, named as people name it."""
    for group in GROUPS:
        for one in (await api.get(group))["resources"]:
            if (
                kind.lower() in (one["kind"].lower(), one["name"], one["singularName"])
                and "/" not in one["name"]
            ):
                place = f"{group}/namespaces/{namespace}" if one["namespaced"] else group
                return f"{place}/{one['name']}"
    raise SystemExit(f'error: the server does not have a resource type "{kind}"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
