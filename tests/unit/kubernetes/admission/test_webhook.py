"""The webhook answers from what it has listed, and renews its own certificates."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from gpupool.base.errors import ApiServerRejection, BadOption
from gpupool.kubernetes.admission.webhook import Webhook, WebhookAddress
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources.pool_settings import Settings
from tests.support.kube_builders import gpu_node, node
from tests.support.scripted_api import CONFLICT, FORBIDDEN, NOT_FOUND, ScriptedApi

SECRETS = "/api/v1/namespaces/pool/secrets"
SECRET = f"{SECRETS}/{install.SECRET}"
HOOKS = f"/apis/{install.ADMISSION}/mutatingwebhookconfigurations/{install.WEBHOOK}"


def build_webhook(api: ScriptedApi) -> Webhook:
    return Webhook(api, WebhookAddress.of("127.0.0.1:9443", "pool"), Settings())


def look_after(webhook: Webhook) -> None:
    asyncio.run(webhook._look_after())


def build_hooks(*bundles: str) -> dict[str, Any]:
    hooks = [{"name": "a", "clientConfig": {"url": "x", "caBundle": one}} for one in bundles]
    return {"metadata": {"name": install.WEBHOOK, "resourceVersion": "5"}, "webhooks": hooks}


@pytest.mark.parametrize("listen", ["9443", "0.0.0.0:", "0.0.0.0:https", ""])
def test_address_without_a_port_is_refused_with_an_example(listen: str) -> None:
    with pytest.raises(BadOption, match="is not HOST:PORT") as refusal:
        WebhookAddress.of(listen, "pool")
    assert refusal.value.hint == "--listen 0.0.0.0:9443"


def test_address_names_the_service_as_the_api_server_calls_it() -> None:
    place = WebhookAddress.of("::1:9443", "pool")
    assert (place.host, place.port) == ("::1", 9443)
    assert place.names == [
        "gpupool-webhook.pool.svc",
        "gpupool-webhook.pool.svc.cluster.local",
        "localhost",
    ]


def test_first_replica_creates_the_secret_and_has_its_authority_trusted() -> None:
    api = ScriptedApi({("GET", SECRET): NOT_FOUND, ("GET", HOOKS): build_hooks("", "old")})
    webhook = build_webhook(api)
    look_after(webhook)
    assert api.calls == [("GET", SECRET), ("POST", SECRETS), ("GET", HOOKS), ("PATCH", HOOKS)]
    patch = api.sent[-1][2]
    assert patch["metadata"] == {"resourceVersion": "5"}
    bundles = {one["clientConfig"]["caBundle"] for one in patch["webhooks"]}
    (bundle,) = bundles
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE-----")
    assert {one["clientConfig"]["url"] for one in patch["webhooks"]} == {"x"}
    created = {**api.sent[1][2], "metadata": {"resourceVersion": "8"}}
    api.answer_with("GET", SECRET, created)
    api.answer_with("GET", HOOKS, build_hooks(bundle, bundle))
    del api.sent[:]
    look_after(webhook)
    assert api.calls == [("GET", SECRET), ("GET", HOOKS)], "nothing is due"


def test_torn_secret_is_replaced_in_the_version_that_was_read() -> None:
    torn = {"metadata": {"resourceVersion": "8"}, "data": {"tls.crt": "eA=="}}
    api = ScriptedApi({("GET", SECRET): torn, ("GET", HOOKS): NOT_FOUND})
    look_after(build_webhook(api))
    assert api.calls == [("GET", SECRET), ("PUT", SECRET), ("GET", HOOKS)]
    assert api.sent[1][2]["metadata"]["resourceVersion"] == "8"


def test_replica_that_comes_second_takes_the_certificates_of_the_first() -> None:
    first = ScriptedApi({("GET", SECRET): NOT_FOUND, ("GET", HOOKS): NOT_FOUND})
    look_after(build_webhook(first))
    written = {**first.sent[1][2], "metadata": {"resourceVersion": "8"}}
    second = ScriptedApi(
        {
            ("GET", SECRET): [NOT_FOUND, written],
            ("POST", SECRETS): CONFLICT,
            ("GET", HOOKS): NOT_FOUND,
        }
    )
    look_after(build_webhook(second))
    assert second.calls == [("GET", SECRET), ("POST", SECRETS), ("GET", SECRET), ("GET", HOOKS)]
    refused = ScriptedApi({("GET", SECRET): NOT_FOUND, ("POST", SECRETS): FORBIDDEN})
    with pytest.raises(ApiServerRejection, match="not allowed"):
        look_after(build_webhook(refused))


def test_cards_count_once_every_kind_was_listed_and_follow_their_ledger() -> None:
    webhook = build_webhook(ScriptedApi())
    webhook._note_node(node("n0"), False)
    webhook._note_ledger(gpu_node("n0", 2), False)
    assert webhook._read_cluster().cards is None
    for listed in webhook._lists.values():
        listed.set()
    first = webhook._read_cluster()
    assert first.cards is not None
    assert len(first.cards) == 2
    webhook._note_ledger(gpu_node("n0", 2, version=2), False)
    assert webhook._read_cluster() is first, "entries alone change no answer"
    webhook._note_ledger(gpu_node("n0", 4, version=3), False)
    cards = webhook._read_cluster().cards
    assert cards is not None
    assert len(cards) == 4


def test_ledger_of_a_restored_cluster_is_taken_though_its_generation_is_lower() -> None:
    webhook = build_webhook(ScriptedApi({}))
    webhook._note_ledger(gpu_node("n0", 2, version=900), False)
    webhook._note_ledger(gpu_node("n0", 4, version=850), False)
    assert len(webhook._pool.ledgers["n0"].cards) == 4
