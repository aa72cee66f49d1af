"""A command reads the cluster as it is, also where a kind or an object is not there."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpupool.base.errors import ApiServerRejection, BadInput, NotFound
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.plugin.context import Context, Json, open_context
from tests.support.kube_builders import gpu_node
from tests.support.kube_memory import MemoryApi
from tests.support.scripted_api import FORBIDDEN, NOT_FOUND, ScriptedApi

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NODE = "/api/v1/nodes/n0"


class RefusingApi(ScriptedApi):
    """Refuses every list."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__()
        self._refusal = refusal

    async def list_objects(self, path: str, **_: str) -> tuple[list[Json], str]:
        raise self._refusal


def build_context(api: ScriptedApi | MemoryApi) -> Context:
    return Context(api, "gpupool", False, NOW)


def test_object_that_is_not_there_is_none_and_other_refusals_are_raised() -> None:
    assert asyncio.run(build_context(ScriptedApi({("GET", NODE): NOT_FOUND})).find(NODE)) is None
    with pytest.raises(ApiServerRejection, match="not allowed"):
        asyncio.run(build_context(ScriptedApi({("GET", NODE): FORBIDDEN})).find(NODE))


def test_list_of_a_kind_that_the_cluster_lacks_is_empty() -> None:
    assert asyncio.run(build_context(RefusingApi(NOT_FOUND)).ledgers()) == []
    with pytest.raises(ApiServerRejection, match="not allowed"):
        asyncio.run(build_context(RefusingApi(FORBIDDEN)).ledgers())


def test_ledgers_are_listed_by_name() -> None:
    api = MemoryApi()
    for name in ("n1", "n0"):
        api.put(f"{ledger.NODES}/{name}", gpu_node(name))
    assert [one.name for one in asyncio.run(build_context(api).ledgers())] == ["n0", "n1"]


def test_unknown_node_is_refused_with_the_command_that_lists_them() -> None:
    context = build_context(ScriptedApi({("GET", NODE): NOT_FOUND}))
    with pytest.raises(NotFound, match="this cluster has no node 'n0'") as refusal:
        asyncio.run(context.node("n0"))
    assert refusal.value.hint == "kubectl gpupool map"


@pytest.mark.parametrize("by_option", [True, False])
def test_missing_kubeconfig_is_named_whichever_way_it_was_given(
    tmp_path: Path, by_option: bool
) -> None:
    file = tmp_path / "missing"
    environ: Mapping[str, str] = {} if by_option else {"KUBECONFIG": str(file)}
    options = Namespace(
        kubeconfig=file if by_option else None, no_color=True, pool_namespace="gpupool"
    )

    async def run() -> None:
        async with open_context(options, environ, NOW):
            raise AssertionError("it was opened")

    with pytest.raises(BadInput, match=f"there is no kubeconfig at {file}"):
        asyncio.run(run())
