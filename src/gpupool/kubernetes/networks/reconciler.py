"""Keeps Kube-OVN's objects as the Tenants' networks want them. The only module here with requests.

Each pass reads everything and writes what differs, so it repairs what others changed and goes on
after a crash. Nothing is written without Kube-OVN, without a field that a network needs, or without
the policy that keeps pods in their subnets. What was in force stays then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gpupool.base.errors import (
    ApiServerRejection,
    GpupoolError,
    NetworkingUnavailable,
)
from gpupool.base.silence import mark_busy
from gpupool.kubernetes.client.api import APPLY, ROUND_SECONDS, KubeApi, create_backoff
from gpupool.kubernetes.manifests import address_policy
from gpupool.kubernetes.networks.compiler import compile_network
from gpupool.kubernetes.networks.definitions import list_missing_fields
from gpupool.kubernetes.networks.evidence import list_unready
from gpupool.kubernetes.networks.judgement import (
    NetworkRefusal,
    NetworkVerdict,
    NetworkWish,
    judge_networks,
)
from gpupool.kubernetes.networks.kube_ovn import (
    KIND_BY_NAME,
    KINDS,
    VIPS_PATH,
    Json,
    Key,
    find_owner,
    key_of,
)
from gpupool.kubernetes.networks.object_changes import find_conflict, plan_changes
from gpupool.kubernetes.networks.outcome import NetworkOutcome, list_conditions, shorten
from gpupool.kubernetes.resources.tenant import TenantRegistry
from gpupool.kubernetes.resources.tenant_network import TenantNetwork

#: Seconds to the first look at objects that Kube-OVN has yet to put in force; each later one takes
#: twice as long, up to `REPAIR_SECONDS`.
PENDING_SECONDS = 1.0
#: Seconds between two looks for objects that others have changed.
REPAIR_SECONDS = 10.0
_MANAGER = "gpupool-networks"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_ENABLE = "install the chart with kubeOvn.enabled=true"

log = logging.getLogger(__name__)


class TenantNetworks:
    """The networks of one leader.

    Args:
        kube_ovn_namespace: where Kube-OVN runs; None: this pool manages no networks.
        wake: requests that statuses are computed again.
    """

    def __init__(
        self,
        api: KubeApi,
        tenants: TenantRegistry,
        kube_ovn_namespace: str | None,
        wake: Callable[[], None],
    ) -> None:
        self._api = api
        self._tenants = tenants
        self._namespace = kube_ovn_namespace
        self._wake = wake
        self._wishes: dict[str, NetworkWish] = {}
        self._outcomes: dict[str, NetworkOutcome] = {}
        self._changed = asyncio.Event()
        #: False until all Tenants are known: before, objects of the others would be deleted.
        self._listed = False
        #: Whether dropped objects are still there.
        self._has_leftovers = False
        #: Seconds to the next look.
        self._pause = PENDING_SECONDS

    def note_tenants(self) -> None:
        """Take the Tenants as they are now; called after all have been listed."""
        wishes = self._collect_wishes()
        if wishes != self._wishes or not self._listed:
            self._listed = True
            self._wishes = wishes
            self._changed.set()

    def build_conditions(self, tenant: str) -> list[dict[str, Any]]:
        """Return what the Tenant's status says of its network; nothing if it wants none."""
        known = self._tenants.known.get(tenant)
        if known is None or known.network is None:
            return []
        outcome = self._outcomes.get(tenant, NetworkOutcome())
        return list_conditions(outcome)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        backoff = create_backoff()
        while True:
            await self._wait_for_work()
            self._changed.clear()
            try:
                with mark_busy(ROUND_SECONDS):
                    outcomes = await self._reconcile()
                backoff.reset()
            except GpupoolError as error:
                log.warning("networks of tenants are compared again later: %s", error)
                self._changed.set()
                await asyncio.sleep(backoff.pause())
                continue
            if outcomes != self._outcomes:
                self._outcomes = outcomes
                self._wake()

    async def _wait_for_work(self) -> None:
        if not (self._outcomes or self._has_leftovers):
            await self._changed.wait()
            return
        try:
            async with asyncio.timeout(self._pause):
                await self._changed.wait()
        except TimeoutError:
            return

    def _collect_wishes(self) -> dict[str, NetworkWish]:
        wishes = {}
        for name, known in self._tenants.known.items():
            network = None
            problem = None
            if known.network is not None:
                try:
                    network = TenantNetwork.from_json(known.network)
                except GpupoolError as error:
                    problem = NetworkRefusal.of_error(error)
            wishes[name] = NetworkWish(name, known.namespaces, network, problem)
        return wishes

    async def _reconcile(self) -> dict[str, NetworkOutcome]:
        """Do one pass. Idempotent. Returns the outcome of each network that is wanted."""
        wishes = dict(self._wishes)
        verdicts = judge_networks(wishes)
        if self._namespace is None:
            refusal = _refuse("this pool manages no networks of Tenants", _ENABLE)
            return {name: NetworkOutcome(refusal) for name in verdicts}
        definitions = await self._read_definitions()
        live = await self._list_live(definitions)
        fault = await self._find_fault(definitions)
        wanted, outcomes = _compile_networks(wishes, verdicts, definitions, live, fault)
        refused = [name for name, one in outcomes.items() if one.refusal is not None]
        changes = plan_changes(wanted, live, refused)
        self._has_leftovers = changes.has_leftovers
        is_new = bool(changes.applied or changes.deleted)
        self._pause = PENDING_SECONDS if is_new else min(2 * self._pause, REPAIR_SECONDS)
        for one in changes.applied:
            await self._write_object(one, live, outcomes)
        for one in changes.deleted:
            await self._delete_object(one)
        for name in changes.emptied:
            await self._delete(f"{VIPS_PATH}/{name}")
        for name, objects in wanted.items():
            if outcomes[name].refusal is None:
                outcomes[name] = _judge_outcome(
                    wishes[name], verdicts[name], list_unready(objects, live)
                )
        return outcomes

    # --- requests -----------------------------------------------------------------------------

    async def _read_definitions(self) -> dict[str, Json]:
        found = {}
        for kind in KINDS:
            definition = await self._find(kind.definition_path)
            if definition is not None:
                found[kind.plural] = definition
        return found

    async def _list_live(self, definitions: Mapping[str, Json]) -> dict[Key, Json]:
        """Return every object of these kinds, with its kind, which lists leave out."""
        live = {}
        for kind in KINDS:
            if kind.plural in definitions:
                items, _ = await self._api.list_objects(kind.path)
                for one in items:
                    whole = {**one, "kind": kind.name}
                    live[key_of(whole)] = whole
        return live

    async def _find_fault(self, definitions: Mapping[str, Json]) -> NetworkRefusal | None:
        """Return why no network may be written; None if it may."""
        assert self._namespace is not None
        if not definitions:
            return _refuse(
                "Kube-OVN is not installed: the cluster has none of its definitions",
                "kubectl get crd vpcs.kubeovn.io",
            )
        policy = await self._find(f"{_POLICIES}/{address_policy.NAME}")
        binding = await self._find(f"{_BINDINGS}/{address_policy.NAME}")
        fault = address_policy.find_fault(policy, binding, self._namespace)
        if fault:
            return _refuse(f"pods could enter the networks of other tenants: {fault}", _ENABLE)
        return None

    async def _find(self, path: str) -> Json | None:
        try:
            return await self._api.get(path)
        except ApiServerRejection as error:
            if error.is_not_found:
                return None
            raise

    async def _write_object(
        self,
        one: Json,
        live: dict[Key, Json],
        outcomes: dict[str, NetworkOutcome],
    ) -> None:
        """Write one object. What the API server refuses is the outcome of its Tenant's network."""
        kind = KIND_BY_NAME[one["kind"]]
        name = one["metadata"]["name"]
        tenant = find_owner(one)
        assert tenant is not None, f"{kind.name} {name} is compiled without its tenant"
        if outcomes[tenant].refusal is not None:
            return
        path = f"{kind.path}/{name}?fieldManager={_MANAGER}&force=true"
        try:
            live[key_of(one)] = await self._api.patch(path, one, APPLY)
            log.info("%s %s of tenant %s is written", kind.name, name, tenant)
        except ApiServerRejection as error:
            log.warning("%s %s of tenant %s is refused: %s", kind.name, name, tenant, error)
            outcomes[tenant] = NetworkOutcome(
                _refuse(f"{kind.name} {name} is refused: {error.message}")
            )

    async def _delete_object(self, one: Json) -> None:
        kind = KIND_BY_NAME[one["kind"]]
        name = one["metadata"]["name"]
        # Not another object of the same name that was made meanwhile.
        condition = {"preconditions": {"uid": one["metadata"]["uid"]}}
        if await self._delete(f"{kind.path}/{name}", condition):
            log.info("%s %s of tenant %s is deleted", kind.name, name, find_owner(one))

    async def _delete(self, path: str, options: Json | None = None) -> bool:
        """Delete an object; return whether it was there and the API server takes it."""
        try:
            await self._api.delete(path, options)
        except ApiServerRejection as error:
            if not error.is_not_found:
                log.warning("%s is not deleted: %s", path, error)
            return False
        return True


def _compile_networks(
    wishes: Mapping[str, NetworkWish],
    verdicts: Mapping[str, NetworkVerdict],
    definitions: Mapping[str, Json],
    live: Mapping[Key, Json],
    fault: NetworkRefusal | None,
) -> tuple[dict[str, list[Json]], dict[str, NetworkOutcome]]:
    """Return the objects of each network that may be written, and the first outcome of each."""
    wanted = {}
    outcomes = {}
    for name, verdict in verdicts.items():
        refusal = verdict.refusal or fault
        network = wishes[name].network
        if refusal is None and network is not None:
            objects = compile_network(wishes[name], network, verdict)
            refusal = _find_gap(objects, definitions)
            conflict = find_conflict(objects, live)
            if refusal is None and conflict is not None:
                refusal = NetworkRefusal.of_error(conflict)
            if refusal is None:
                wanted[name] = objects
        outcomes[name] = NetworkOutcome(refusal)
    return wanted, outcomes


def _find_gap(objects: list[Json], definitions: Mapping[str, Json]) -> NetworkRefusal | None:
    missing = list_missing_fields(objects, definitions)
    if not missing:
        return None
    return _refuse(f"this version of Kube-OVN lacks {shorten(missing)}", "version 1.17 has them")


def _refuse(message: str, hint: str = "") -> NetworkRefusal:
    return NetworkRefusal.of_error(NetworkingUnavailable(message, hint=hint))


def _judge_outcome(
    wish: NetworkWish, verdict: NetworkVerdict, unready: list[str]
) -> NetworkOutcome:
    peers = wish.network.peers if wish.network is not None else ()
    return NetworkOutcome(None, tuple(unready), peers, verdict.missing)
