"""Reads how to reach an API server from a kubeconfig file or a pod's service account.

Of a kubeconfig it reads the current context, its cluster's address and authority, and its user's
token or client certificate: in the file, beside it, or printed by a program (`exec`).
`auth-provider`, which Kubernetes has removed, is refused. No requests are made here.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.base.errors import BadInput
from gpupool.kubernetes.client.exec_credential import (
    CachedCredential,
    CredentialProgram,
    ExecCredential,
    describe_cluster,
)

#: Where a kubelet mounts a pod's service account.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ServerConnection:
    """Address of an API server, and the credential for it.

    `token_file` is read for every request: kubelets renew tokens, every hour by default.
    """

    url: str
    tls: ssl.SSLContext
    token: str = ""
    token_file: Path | None = None
    namespace: str = "default"
    fetched: CachedCredential | None = None

    def read_token(self) -> str:
        """Return the token to send now; empty with a certificate. May block to run a program.

        Raises:
            NotLoggedIn: the program printed no credential.
        """
        if self.fetched is not None:
            return self.fetched.read_token()
        return self.token_file.read_text().strip() if self.token_file else self.token

    def discard_token(self) -> None:
        """Have a fetched credential fetched anew for the next request; called after a 401."""
        if self.fetched is not None:
            self.fetched.discard_token()


def load_service_account(host: str, port: str, account: Path = ACCOUNT) -> ServerConnection:
    """Return the connection of a pod to its API server. Raises BadInput outside of a pod."""
    token = account / "token"
    authority = account / "ca.crt"
    if not (host and token.is_file() and authority.is_file()):
        raise BadInput(
            f"{account} holds no service account: this is not a pod", hint="--kubeconfig FILE"
        )
    tls = ssl.create_default_context(cafile=str(authority))
    # An IPv6 address in a URL stands in brackets (RFC 3986, 3.2.2).
    address = f"[{host}]" if ":" in host else host
    namespace = (account / "namespace").read_text().strip()
    return ServerConnection(
        f"https://{address}:{port or 443}", tls, token_file=token, namespace=namespace
    )


def load_kubeconfig(path: Path) -> ServerConnection:
    """Return the connection that a kubeconfig describes; may block to run its credential program.

    Raises:
        BadInput: the file cannot be read, or names something that is not supported.
        NotLoggedIn: the program printed no credential.
    """
    try:
        read = yaml.safe_load(path.read_text())
        context = _find_entry(read["contexts"], read["current-context"])["context"]
        cluster = _find_entry(read["clusters"], context["cluster"])["cluster"]
        user = _find_entry(read["users"], context["user"])["user"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path} is no kubeconfig that can be read: {error!r}", hint="kubectl config view"
        ) from None
    if "auth-provider" in user:
        raise BadInput(
            f"{path}: user {context['user']} gets its credential from auth-provider, which Kubernetes has taken out",
            hint="write the kubeconfig anew with the cluster's own tool",
        )
    tls = _create_tls(path.parent, cluster, user)
    server = cluster["server"].rstrip("/")
    if "exec" in user:
        authority = _read_text(path.parent, cluster, "certificate-authority")
        told = describe_cluster(
            cluster, base64.b64encode(authority.encode()).decode() if authority else None
        )
        helper = CredentialProgram.from_spec(path.parent, context["user"], user["exec"], told)
        fetched = CachedCredential(helper, lambda found: _write_certificate(tls, found))
        # At once: a client certificate must be loaded before the first connection.
        fetched.read_token()
        return ServerConnection(server, tls, namespace=_read_namespace(context), fetched=fetched)
    token_file = path.parent / user["tokenFile"] if "tokenFile" in user else None
    return ServerConnection(
        server, tls, user.get("token", ""), token_file, _read_namespace(context)
    )


def _read_namespace(context: Mapping[str, Any]) -> str:
    return str(context.get("namespace") or "default")


def _find_entry(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _create_tls(place: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _read_text(place, cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = _read_text(place, user, "client-certificate")
    key = _read_text(place, user, "client-key")
    if certificate and key:
        _write_certificate(tls, ExecCredential(certificate=certificate, key=key))
    return tls


def _write_certificate(tls: ssl.SSLContext, credential: ExecCredential) -> None:
    """Have new connections show this certificate."""
    # `ssl` loads certificates from files only; this one has mode 0600 and is deleted at the end of
    # the block.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{credential.certificate}\n{credential.key}\n")
        file.flush()
        tls.load_cert_chain(file.name)


def _read_text(place: Path, entry: Mapping[str, Any], name: str) -> str | None:
    """Return what a kubeconfig has in base64, or in a file beside it; None if it has neither."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return (place / entry[name]).read_text() if name in entry else None
