"""An uninstall stops placing before it looks who runs, also where the settings object is not there
yet, and goes on where an API server forgets a definition that is being deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.base.errors import ApiServerRejection, ServiceUnavailable
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.plugin import uninstall
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS

CHART = Path(__file__).parents[4] / "deploy" / "helm" / "gpupool"


class Server(KubeApi):
    """The settings objects by name. `meanwhile` is called before a `create` is looked at."""

    def __init__(
        self, objects: dict[str, Any] | None, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        self.objects, self.meanwhile = objects, meanwhile

    async def patch(self, path: str, body: Any, kind: str = "", accept: str = "") -> dict[str, Any]:
        folder, _, name = path.rpartition("/")
        assert folder == SETTINGS
        if self.objects is None or name not in self.objects:
            raise ApiServerRejection("not found", status=404)
        self.objects[name]["spec"] |= body["spec"]
        return dict(self.objects[name])

    async def create(self, path: str, body: Any) -> dict[str, Any]:
        assert path == SETTINGS
        if self.objects is None:
            raise ApiServerRejection("no such kind", status=404)
        self.meanwhile()
        if body["metadata"]["name"] in self.objects:
            raise ApiServerRejection("already exists", status=409)
        self.objects[body["metadata"]["name"]] = body
        return dict(body)


def told(server: Server) -> bool:
    context = Context(server, "gpupool-system", False, datetime.now(UTC))
    return asyncio.run(uninstall._is_placing_stopped(context))


def test_settings_that_are_there_keep_what_they_say() -> None:
    server = Server({NAME: {"spec": {"placing": True, "fairness": {}}}})
    assert told(server)
    assert server.objects == {NAME: {"spec": {"placing": False, "fairness": {}}}}


@pytest.mark.parametrize("made_meanwhile", [False, True])
def test_settings_that_the_controller_has_not_made_yet(made_meanwhile: bool) -> None:
    objects: dict[str, Any] = {}

    def controller() -> None:
        if made_meanwhile:
            objects[NAME] = {"spec": {}}

    assert told(Server(objects, controller))
    assert objects[NAME]["spec"] == {"placing": False}


def test_where_the_definition_is_gone_nobody_is_to_be_told() -> None:
    assert not told(Server(None))


def test_another_refusal_is_said() -> None:
    class Forbids(Server):
        async def patch(
            self, path: str, body: Any, kind: str = "", accept: str = ""
        ) -> dict[str, Any]:
            raise ApiServerRejection("forbidden", status=403)

    with pytest.raises(ApiServerRejection, match="forbidden"):
        told(Forbids({}))


class ForgetfulServer(KubeApi):
    """Deletes a definition when it is changed after it was asked to, and not before."""

    def __init__(self, *, may_change: bool = True) -> None:
        self.may_change = may_change
        self.deleted = set[str]()
        self.gone = set[str]()

    async def get(self, path: str, accept: str = "", **query: str) -> dict[str, Any]:
        if path in self.gone:
            raise ApiServerRejection("not found", status=404)
        return {"metadata": {}}

    async def delete(self, path: str, body: Any = None) -> None:
        self.deleted.add(path)

    async def patch(self, path: str, body: Any, kind: str = "", accept: str = "") -> dict[str, Any]:
        if not self.may_change:
            raise ApiServerRejection("forbidden", status=403)
        assert path in self.deleted
        assert body["metadata"]["annotations"]
        self.gone.add(path)
        return {}


def delete_definitions(server: KubeApi) -> None:
    context = Context(server, "gpupool-system", False, datetime.now(UTC))
    asyncio.run(uninstall._definitions(context))


def test_a_definition_whose_deletion_stands_still_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uninstall, "TOUCH_SECONDS", 0.0)
    server = ForgetfulServer()
    delete_definitions(server)
    assert server.gone == server.deleted
    assert any("reservations." in path for path in server.gone)


def test_who_may_change_no_definition_is_told_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "TOUCH_SECONDS", 0.0)
    monkeypatch.setattr(uninstall, "GONE_SECONDS", 0.0)
    with pytest.raises(ServiceUnavailable, match=r"reservations\.gpupool\.dev.* not gone yet"):
        delete_definitions(ForgetfulServer(may_change=False))


def test_hook_of_the_chart_may_change_definitions_that_stand_still() -> None:
    """Without the right no deletion is begun again, and the hook ends before the server's resync."""
    template = (CHART / "templates" / "uninstall.yaml").read_text()
    rules = yaml.safe_load("rules:" + template.partition("\nrules:")[2].partition("\n---")[0])
    (verbs,) = [
        one["verbs"] for one in rules["rules"] if "customresourcedefinitions" in one["resources"]
    ]
    assert {"get", "patch", "delete"} <= set(verbs)
