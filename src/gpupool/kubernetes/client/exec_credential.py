"""Runs the credential program that a kubeconfig names, as those of EKS, GKE and AKS do.

The protocol is ExecCredential of `client.authentication.k8s.io`, v1 and v1beta1. The program reads
about the cluster in KUBERNETES_EXEC_INFO and prints a token, a client certificate, or both, and
when they expire. An interactive program has the user's terminal; otherwise its stderr is part of
our error.
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
V1 = f"{GROUP}/v1"
V1BETA1 = f"{GROUP}/v1beta1"
INFO = "KUBERNETES_EXEC_INFO"
MODES = ("Never", "IfAvailable", "Always")
#: Seconds after which a program that is not interactive is taken for hanging.
SILENT_SECONDS = 60.0
#: Characters of the end of a program's stderr that an error repeats.
TOLD = 500


@dataclass(frozen=True)
class ExecCredential:
    """What a program printed. `ends` is None for a credential without an expiry."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    ends: datetime | None = None


@dataclass(frozen=True)
class CredentialProgram:
    """A program as the kubeconfig names it. A `command` without a folder is searched on PATH."""

    user: str
    version: str
    command: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    cluster: Mapping[str, Any] | None
    mode: str
    install_hint: str

    @classmethod
    def from_spec(
        cls, place: Path, user: str, spec: Mapping[str, Any], cluster: Mapping[str, Any]
    ) -> CredentialProgram:
        """Read the `exec` part of a user.

        Args:
            place: the kubeconfig's folder.
            cluster: what the program reads about the cluster, if it asks for that.

        Raises:
            BadInput: the part is incomplete, or of an unknown version.
        """
        version = spec.get("apiVersion")
        command = str(spec.get("command") or "")
        if version not in (V1, V1BETA1):
            raise BadInput(
                f"user {user}: its program {command or '?'} speaks {version}; {V1} and {V1BETA1} are spoken here",
                hint="write the kubeconfig anew with the cluster's own tool, e.g. aws eks update-kubeconfig",
            )
        # v1 requires the mode; v1beta1 has a default (client.authentication.k8s.io).
        mode = spec.get("interactiveMode") or ("IfAvailable" if version == V1BETA1 else None)
        if not command or mode not in MODES:
            missing = "command" if not command else f"interactiveMode, one of {', '.join(MODES)}"
            raise BadInput(f"user {user}: its exec says no {missing}", hint="kubectl config view")
        # As kubectl does: relative to the kubeconfig, not to the working directory.
        path = str(place / command) if "/" in command else command
        variables = {one["name"]: str(one["value"]) for one in spec.get("env") or ()}
        told = cluster if spec.get("provideClusterInfo") else None
        arguments = tuple(map(str, spec.get("args") or ()))
        return cls(
            user,
            version,
            path,
            arguments,
            variables,
            told,
            mode,
            str(spec.get("installHint") or "").strip(),
        )

    def run_program(self) -> ExecCredential:
        """Run the program and return its credential; blocks until it has ended.

        Raises:
            NotLoggedIn: it cannot be run, failed, or printed no credential.
        """
        people = sys.stdin.isatty() and self.mode != "Never"
        if self.mode == "Always" and not people:
            raise self._login_error(
                "has to speak with somebody, and there is no terminal", "type it in a terminal"
            )
        spec = {
            "interactive": people,
            **({"cluster": self.cluster} if self.cluster is not None else {}),
        }
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
            raise self._login_error(f"cannot be run: {error.strerror}", self.install_hint) from None
        except subprocess.TimeoutExpired:
            raise self._login_error(f"has printed nothing for {SILENT_SECONDS:.0f} s") from None
        if done.returncode:
            said = (done.stderr or "").strip()[-TOLD:]
            raise self._login_error(
                f"ended with {done.returncode}{': ' + said if said else ''}", self.install_hint
            )
        try:
            return _read_credential(json.loads(done.stdout), self.version)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._login_error(
                f"printed no ExecCredential of {self.version}: {error}"
            ) from None

    def _login_error(self, why: str, hint: str = "") -> NotLoggedIn:
        words = f"{self.command} {' '.join(self.arguments)}".strip()
        return NotLoggedIn(
            f"user {self.user}: its program for credentials {why}", hint=hint or f"try  {words}"
        )


class CachedCredential:
    """A program's credential, fetched again when it has expired or was refused.

    `installed` takes each new certificate; `now` is the wall clock.
    """

    def __init__(
        self,
        helper: CredentialProgram,
        installed: Callable[[ExecCredential], None],
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._helper = helper
        self._installed = installed
        self._now = now or (lambda: datetime.now(UTC))
        self._known: ExecCredential | None = None

    def read_token(self) -> str:
        """Return the token; may block while the program runs. Raises NotLoggedIn."""
        known = self._known
        if known is None or (known.ends is not None and known.ends <= self._now()):
            known = self._known = self._helper.run_program()
            if known.certificate:
                self._installed(known)
        return known.token

    def discard_token(self) -> None:
        """Forget the credential: the server has refused it."""
        self._known = None


def _read_credential(printed: Mapping[str, Any], version: str) -> ExecCredential:
    """Read what the program printed; any error of its shape is the caller's to report."""
    if (printed["kind"], printed["apiVersion"]) != ("ExecCredential", version):
        raise ValueError(f"it is a {printed['kind']} of {printed['apiVersion']}")
    status = printed.get("status") or {}
    token = status.get("token") or ""
    ends = status.get("expirationTimestamp")
    certificate = status.get("clientCertificateData") or ""
    key = status.get("clientKeyData") or ""
    if bool(certificate) != bool(key):
        raise ValueError("of certificate and key there is one alone")
    if not (token or certificate):
        raise ValueError("there is neither a token nor a certificate in it")
    return ExecCredential(token, certificate, key, datetime.fromisoformat(ends) if ends else None)


def describe_cluster(cluster: Mapping[str, Any], authority: str | None) -> dict[str, Any]:
    """Return what a program reads about the cluster; `authority` is a certificate in base64."""
    named = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    extensions = {one["name"]: one["extension"] for one in cluster.get("extensions") or ()}
    found = {}
    for name in named:
        if cluster.get(name):
            found[name] = cluster[name]
    if authority:
        found["certificate-authority-data"] = authority
    if f"{GROUP}/exec" in extensions:
        found["config"] = extensions[f"{GROUP}/exec"]
    return found
