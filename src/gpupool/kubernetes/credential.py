"""Programs that a kubeconfig names for a credential, as those of EKS, GKE and AKS do.

The protocol is ExecCredential of `client.authentication.k8s.io`, v1 and v1beta1: the program is told of the cluster in
KUBERNETES_EXEC_INFO and prints a token, a client certificate, or both, and until when they are good. Where it may
speak with people it has their terminal; otherwise what it says on stderr is in our error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadInput, NotLoggedIn

GROUP = "client.authentication.k8s.io"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"
INFO = "KUBERNETES_EXEC_INFO"
MODES = ("Never", "IfAvailable", "Always")
SILENT_SECONDS = 60.0
"""A program that speaks with nobody and takes longer than that hangs."""
TOLD = 500


@dataclass(frozen=True)
class Credential:
    """What a program printed; `ends` is None for one that is good as long as we run."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    ends: datetime | None = None


@dataclass(frozen=True)
class Helper:
    """A program as the kubeconfig names it. `command` is found on PATH where it has no folder."""

    user: str
    version: str
    command: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    cluster: Mapping[str, Any] | None
    mode: str
    install_hint: str

    @classmethod
    def of(cls, place: Path, user: str, spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> Helper:
        """`place` is the kubeconfig's folder, `cluster` what the program is told where it asks. Raises BadInput."""
        version, command = spec.get("apiVersion"), str(spec.get("command") or "")
        if version not in (V1, V1BETA1):
            raise BadInput(
                f"user {user}: its program {command or '?'} speaks {version}; {V1} and {V1BETA1} are spoken here",
                hint="write the kubeconfig anew with the cluster's own tool, e.g. aws eks update-kubeconfig",
            )
        mode = spec.get("interactiveMode") or ("IfAvailable" if version == V1BETA1 else None)
        if not command or mode not in MODES:
            missing = "command" if not command else f"interactiveMode, one of {', '.join(MODES)}"
            raise BadInput(f"user {user}: its exec says no {missing}", hint="kubectl config view")
        path = str(place / command) if "/" in command else command
        variables = {one["name"]: str(one["value"]) for one in spec.get("env") or ()}
        told = cluster if spec.get("provideClusterInfo") else None
        arguments = tuple(map(str, spec.get("args") or ()))
        return cls(user, version, path, arguments, variables, told, mode, str(spec.get("installHint") or "").strip())

    def ask(self) -> Credential:
        """Blocks until the program has ended. Raises NotLoggedIn."""
        people = sys.stdin.isatty() and self.mode != "Never"
        if self.mode == "Always" and not people:
            raise self._failed("has to speak with somebody, and there is no terminal", "type it in a terminal")
        spec = {"interactive": people, **({"cluster": self.cluster} if self.cluster is not None else {})}
        info = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        try:
            done = subprocess.run(
                [self.command, *self.arguments],
                env={**os.environ, **self.variables, INFO: json.dumps(info)},
                stdin=None if people else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if people else subprocess.PIPE,
                text=True,
                check=False,
                timeout=None if people else SILENT_SECONDS,
            )
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}", self.install_hint) from None
        except subprocess.TimeoutExpired:
            raise self._failed(f"has printed nothing for {SILENT_SECONDS:.0f} s") from None
        if done.returncode:
            said = (done.stderr or "").strip()[-TOLD:]
            raise self._failed(f"ended with {done.returncode}{': ' + said if said else ''}", self.install_hint)
        try:
            return _read(json.loads(done.stdout), self.version)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._failed(f"printed no ExecCredential of {self.version}: {error}") from None

    def _failed(self, why: str, hint: str = "") -> NotLoggedIn:
        words = f"{self.command} {' '.join(self.arguments)}".strip()
        return NotLoggedIn(f"user {self.user}: its program for credentials {why}", hint=hint or f"try  {words}")


class Fetched:
    """A helper's credential, asked for again when it has run out or the server took it no more.

    `installed` is called with each new one that is a certificate; `now` is the wall clock.
    """

    def __init__(
        self, helper: Helper, installed: Callable[[Credential], None], now: Callable[[], datetime] | None = None
    ) -> None:
        self._helper, self._installed = helper, installed
        self._now = now or (lambda: datetime.now(UTC))
        self._known: Credential | None = None

    def token(self) -> str:
        """May block for as long as the program runs. Raises NotLoggedIn."""
        known = self._known
        if known is None or (known.ends is not None and known.ends <= self._now()):
            known = self._known = self._helper.ask()
            if known.certificate:
                self._installed(known)
        return known.token

    def forget(self) -> None:
        """The server does not know us by it."""
        self._known = None


def _read(printed: Mapping[str, Any], version: str) -> Credential:
    """Raises ValueError and what a shape that is another raises."""
    if (printed["kind"], printed["apiVersion"]) != ("ExecCredential", version):
        raise ValueError(f"it is a {printed['kind']} of {printed['apiVersion']}")
    status = printed.get("status") or {}
    token, ends = status.get("token") or "", status.get("expirationTimestamp")
    certificate, key = status.get("clientCertificateData") or "", status.get("clientKeyData") or ""
    if bool(certificate) != bool(key):
        raise ValueError("of certificate and key there is one alone")
    if not (token or certificate):
        raise ValueError("there is neither a token nor a certificate in it")
    return Credential(token, certificate, key, datetime.fromisoformat(ends) if ends else None)


def told_of(cluster: Mapping[str, Any], authority: str | None) -> dict[str, Any]:
    """What a program is told of the cluster; `authority` is its certificate in base64."""
    named = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    extensions = {one["name"]: one["extension"] for one in cluster.get("extensions") or ()}
    found = {name: cluster[name] for name in named if cluster.get(name)}
    found |= {"certificate-authority-data": authority} if authority else {}
    return found | ({"config": extensions[f"{GROUP}/exec"]} if f"{GROUP}/exec" in extensions else {})
