"""The admission webhook: answers the API server over TLS, with certificates that it renews itself.

Several replicas may run. Each knows the cluster's cards and tenants by watches and answers requests
from memory; it is not ready before its first lists. It writes its own Secret and the CA bundle of
the webhook's configuration, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from gpupool.base.errors import ApiServerRejection, BadOption, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import watched_task
from gpupool.kubernetes.admission.certificates import Certificates, renew_certificates
from gpupool.kubernetes.admission.decide import ClusterFacts, review_pod
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import ROUND_SECONDS, KubeApi
from gpupool.kubernetes.client.informer import watch_objects
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.reporting.task_health import answer_health
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pool_settings import SETTINGS, PoolSettings, Settings
from gpupool.kubernetes.resources.tenant import TENANTS, TenantRegistry

LOOK_SECONDS = 3600.0
AGAIN_SECONDS = 5.0
LARGEST_BYTES = 4 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebhookAddress:
    """Where it listens, and by which name the API server calls it."""

    host: str
    port: int
    namespace: str
    service: str = install.WEBHOOK

    @classmethod
    def of(cls, listen: str, namespace: str) -> WebhookAddress:
        """Raises BadOption."""
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit():
            raise BadOption(f"--listen {listen!r} is not HOST:PORT", hint="--listen 0.0.0.0:9443")
        return cls(host, int(port), namespace)

    @property
    def names(self) -> list[str]:
        """Names of the service, and this machine's for a webhook that is called by address."""
        full = f"{self.service}.{self.namespace}.svc"
        return [full, f"{full}.cluster.local", "localhost"]


class Webhook:
    """One replica."""

    def __init__(self, api: KubeApi, place: WebhookAddress, settings: Settings) -> None:
        self._api = api
        self._place = place
        self._settings = PoolSettings(settings)
        self._pool = ClusterCache()
        self._cluster: ClusterFacts | None = None
        self._tenants = TenantRegistry()
        self._lists = {
            name: asyncio.Event() for name in ("nodes", "ledgers", "tenants", "settings")
        }
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._served = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                watch_objects(self._api, "/api/v1/nodes", self._note_node, self._lists["nodes"].set)
            )
            tasks.create_task(
                watch_objects(
                    self._api, ledger.NODES, self._note_ledger, self._lists["ledgers"].set
                )
            )
            tasks.create_task(
                watch_objects(self._api, TENANTS, self._note_tenant, self._note_tenants_listed)
            )
            tasks.create_task(
                watch_objects(self._api, SETTINGS, self._note_settings, self._lists["settings"].set)
            )
            await self._look_after()
            tasks.create_task(self._serve())
            tasks.create_task(watched_task("certificates", self._renew))

    # --- answers ------------------------------------------------------------------------------

    async def _serve(self) -> None:
        app = web.Application(client_max_size=LARGEST_BYTES)
        app.add_routes(
            [
                web.post("/admit", self._admit),
                web.get("/readyz", self._ready),
                web.get("/healthz", answer_health),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(
                runner, self._place.host, self._place.port, ssl_context=self._tls
            ).start()
            log.info("admission at https://%s:%d/admit", *runner.addresses[0][:2])
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _admit(self, request: web.Request) -> web.Response:
        try:
            asked = await request.json()
            return web.json_response(review_pod(asked, self._read_cluster()))
        except (ValueError, KeyError, TypeError) as error:
            return web.Response(status=400, text=f"no AdmissionReview of a pod: {error!r}\n")

    async def _ready(self, _: web.Request) -> web.Response:
        ready = all(listed.is_set() for listed in self._lists.values())
        return web.Response(
            text="ok\n" if ready else "lists are not there yet\n", status=200 if ready else 503
        )

    def _read_cluster(self) -> ClusterFacts:
        """What admission may judge by; without lists, nothing."""
        if self._cluster is None and all(listed.is_set() for listed in self._lists.values()):
            cards = self._pool.take_snapshot().cards
            now = self._settings.in_use
            self._cluster = ClusterFacts(
                cards,
                dialects=now.enabled_dialects,
                tree=self._pool.tenant_usage.tree,
                direct=now.direct,
            )
        return self._cluster or ClusterFacts(dialects=self._settings.in_use.enabled_dialects)

    def _note_node(self, found: dict[str, Any], gone: bool) -> None:
        name = found["metadata"]["name"]
        self._pool.note_host(name, None if gone else NodeFacts.from_json(found))
        self._cluster = None

    def _note_ledger(self, found: dict[str, Any], gone: bool) -> None:
        name = found["metadata"]["name"]
        before = self._pool.ledgers.get(name)
        now = None if gone else GpuNode.from_json(found)
        # Only the watch tells of ledgers here, and always of a later state. A lower generation is
        # that of a cluster that was restored.
        self._pool.note_ledger(name, now, sure=True)
        if before is None or now is None or before.cards != now.cards:
            self._cluster = None

    def _note_tenant(self, found: dict[str, Any], gone: bool) -> None:
        self._tenants.note_tenant(found, gone)
        self._settle()

    def _note_settings(self, found: dict[str, Any], gone: bool) -> None:
        if self._settings.note_settings(found, gone):
            self._cluster = None

    def _note_tenants_listed(self) -> None:
        self._tenants.mark_listed()
        self._settle()
        self._lists["tenants"].set()

    def _settle(self) -> None:
        if self._tenants.judge_tree():
            self._pool.note_tenants(self._tenants.tree)
            self._cluster = None

    # --- certificates -------------------------------------------------------------------------

    async def _renew(self) -> None:
        while True:
            try:
                await asyncio.sleep(LOOK_SECONDS)
                with mark_busy(ROUND_SECONDS):
                    await self._look_after()
            except GpupoolError as error:
                log.warning("the certificates are looked after later: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _look_after(self) -> None:
        """Have certificates that are not due, serve by them, and have the API server trust them.
        Twice is once."""
        while not (found := await self._certificates()):
            log.info("another replica writes the certificates")
        if found.serving != self._served:
            _load(self._tls, found)
            self._served = found.serving
        await self._trust(found.bundle)

    async def _certificates(self) -> Certificates | None:
        """What is to be served; None where another replica wrote first."""
        path = f"/api/v1/namespaces/{self._place.namespace}/secrets"
        secret = await _read_object(self._api, f"{path}/{install.SECRET}")
        known = Certificates.from_secret((secret or {}).get("data") or {})
        made = renew_certificates(known, self._place.names, datetime.now(UTC))
        if made == known:
            return known
        meta: dict[str, Any] = {"name": install.SECRET, "namespace": self._place.namespace}
        if secret is not None:
            meta["resourceVersion"] = secret["metadata"]["resourceVersion"]
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": made.to_secret()}
        try:
            if secret is None:
                await self._api.create(path, body)
            else:
                await self._api.request("PUT", f"{path}/{install.SECRET}", body)
        except ApiServerRejection as error:
            if error.is_conflict:
                return None
            raise
        return made

    async def _trust(self, bundle: str) -> None:
        """Have the configuration name our authority; nothing is written where it does."""
        path = f"/apis/{install.ADMISSION}/mutatingwebhookconfigurations/{install.WEBHOOK}"
        found = await _read_object(self._api, path)
        if found is None:
            log.warning("there is no webhook configuration %s: nobody asks us", install.WEBHOOK)
            return
        wanted = base64.b64encode(bundle.encode()).decode()
        if any(one["clientConfig"].get("caBundle") != wanted for one in found["webhooks"]):
            hooks = []
            for one in found["webhooks"]:
                hooks.append({**one, "clientConfig": {**one["clientConfig"], "caBundle": wanted}})
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            await self._api.patch(path, {"metadata": version, "webhooks": hooks})


async def _read_object(api: KubeApi, path: str) -> dict[str, Any] | None:
    try:
        return await api.get(path)
    except ApiServerRejection as error:
        if error.is_not_found:
            return None
        raise


def _load(tls: ssl.SSLContext, found: Certificates) -> None:
    """Serve by these from the next connection on. The library takes them from a file alone: ours,
    and gone at once."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "serving.pem"
        file.touch(mode=0o600)
        file.write_text(found.serving + found.serving_key)
        tls.load_cert_chain(file)
        os.unlink(file)
