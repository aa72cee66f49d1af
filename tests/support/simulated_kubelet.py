"""What kubelets of simulated nodes would say of their pods: that they run, are ready, have failed,
and are gone."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

from tests.support.cluster.api import Api, RefusedError

POLL_SECONDS = 0.05
NOT_FOUND, CONFLICT = 404, 409

Json = dict[str, Any]


class SimulatedKubelet:
    """For every node that nobody else plays. `with`: pods that are bound run and are ready; deleted
    ones go at once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-kubelet", daemon=True)
        self._unready: frozenset[str] = frozenset()

    def __enter__(self) -> SimulatedKubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._api.close()

    def keep_unready(self, *names: str) -> None:
        """Pods of these names, and no others, run without getting ready."""
        self._unready = frozenset(names)

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            for pod in self._api.get("/api/v1/pods")["items"]:
                if pod["spec"].get("nodeName"):
                    self._look(pod)

    def _look(self, pod: Json) -> None:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        ready = meta["name"] not in self._unready
        try:
            if meta.get("deletionTimestamp"):
                if meta.get("deletionGracePeriodSeconds") != 0:
                    self._api.delete(f"{path}?gracePeriodSeconds=0")
            elif phase not in ("Succeeded", "Failed") and (
                phase != "Running" or ready != _is_ready(pod)
            ):
                self._api.merge(
                    f"{path}/status",
                    {"metadata": {"uid": meta["uid"]}, "status": status(pod, ready=ready)},
                )
        except RefusedError as refusal:
            if refusal.status not in (NOT_FOUND, CONFLICT):
                raise


def _is_ready(pod: Json) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod["status"].get("conditions", ())
    )


def status(pod: Json, phase: str = "Running", *, ready: bool = True) -> Json:
    """A pod's status when its containers do what the phase says."""
    now, runs = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), phase == "Running"
    kept = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    word = str(ready and runs)
    conditions = [{"type": kind, "status": word} for kind in ("Ready", "ContainersReady")]
    state = (
        {"running": {"startedAt": now}}
        if runs
        else {"terminated": {"exitCode": int(phase == "Failed")}}
    )
    containers = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": ready and runs,
            "started": runs,
            "state": state,
        }
        for one in pod["spec"]["containers"]
    ]
    started = pod["status"].get("startTime", now)
    return {
        "phase": phase,
        "startTime": started,
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [*kept, {"type": "Initialized", "status": "True"}, *conditions],
        "containerStatuses": containers,
    }


def ends(api: Api, pod: Json, phase: str) -> None:
    """Its containers end, well or badly."""
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    api.merge(path, {"metadata": {"uid": meta["uid"]}, "status": status(pod, phase)})
