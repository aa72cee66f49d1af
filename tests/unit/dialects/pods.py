"""Pods for the dialects' tests, and what they are understood as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.dialects.contract import ContainerAsk, PodClaim
from gpupool.dialects.facts import read_facts
from gpupool.dialects.manifests.reading import understand_pod


def pod(
    limits: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container, `main`."""
    one: dict[str, Any] = {"name": "main", "image": "app"}
    if limits is not None:
        one["resources"] = {"limits": dict(limits)}
    if env is not None:
        one["env"] = [{"name": name, "value": value} for name, value in env.items()]
    meta: dict[str, Any] = {"name": "p"}
    meta |= {"annotations": dict(annotations)} if annotations else {}
    meta |= {"labels": dict(labels)} if labels else {}
    return {"metadata": meta, "spec": {"containers": [one], **spec}}


def claim_of(given: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> PodClaim:
    return understand_pod(given, read_facts(facts))


def ask_of(given: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> ContainerAsk:
    """What its only asking container asks for."""
    (one,) = claim_of(given, facts).containers
    return one.ask


def said(given: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> str:
    """`0.30 GPU (30 % compute) + 8192 MiB, burst`, or the code and the words of the refusal."""
    try:
        ask = ask_of(given, facts)
    except GpupoolError as error:
        return f"{error.code}: {error.message}"
    return f"{ask}, {ask.sharing}"
