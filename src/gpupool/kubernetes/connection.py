"""How to reach an API server: a kubeconfig file, or what a pod finds in its service account. No requests are made here.

Of a kubeconfig are read: the current context, its cluster's address and authority, and of its user a token or a client
certificate, each in the file, beside it, or printed by a program (`exec`). `auth-provider`, which Kubernetes has taken
out, is refused.
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
from gpupool.kubernetes.credential import Credential, Fetched, Helper, told_of

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Connection:
    """Where the API server is and who we are. `token_file` is read again and again: kubelets renew tokens."""

    url: str
    tls: ssl.SSLContext
    token: str = ""
    token_file: Path | None = None
    namespace: str = "default"
    fetched: Fetched | None = None

    def bearer(self) -> str:
        """The token to send now; empty where a certificate says who we are. May run a program. Raises NotLoggedIn."""
        if self.fetched is not None:
            return self.fetched.token()
        return self.token_file.read_text().strip() if self.token_file else self.token

    def unknown(self) -> None:
        """The server said 401: a credential that was fetched is fetched anew for the next request."""
        if self.fetched is not None:
            self.fetched.forget()


def from_account(host: str, port: str, account: Path = ACCOUNT) -> Connection:
    """As a pod reaches its API server. Raises BadInput outside of a pod."""
    token, authority = account / "token", account / "ca.crt"
    if not (host and token.is_file() and authority.is_file()):
        raise BadInput(f"{account} holds no service account: this is not a pod", hint="--kubeconfig FILE")
    tls = ssl.create_default_context(cafile=str(authority))
    address = f"[{host}]" if ":" in host else host
    namespace = (account / "namespace").read_text().strip()
    return Connection(f"https://{address}:{port or 443}", tls, token_file=token, namespace=namespace)


def from_kubeconfig(path: Path) -> Connection:
    """As kubectl reaches it; a program that it names for a credential is run. Raises BadInput, NotLoggedIn."""
    try:
        read = yaml.safe_load(path.read_text())
        context = _named(read["contexts"], read["current-context"])["context"]
        cluster = _named(read["clusters"], context["cluster"])["cluster"]
        user = _named(read["users"], context["user"])["user"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is no kubeconfig that can be read: {error!r}", hint="kubectl config view") from None
    if "auth-provider" in user:
        raise BadInput(
            f"{path}: user {context['user']} gets its credential from auth-provider, which Kubernetes has taken out",
            hint="write the kubeconfig anew with the cluster's own tool",
        )
    tls, server = _tls(path.parent, cluster, user), cluster["server"].rstrip("/")
    if "exec" in user:
        authority = _text(path.parent, cluster, "certificate-authority")
        told = told_of(cluster, base64.b64encode(authority.encode()).decode() if authority else None)
        helper = Helper.of(path.parent, context["user"], user["exec"], told)
        fetched = Fetched(helper, lambda found: _present(tls, found))
        fetched.token()  # a certificate has to be there before the first connection
        return Connection(server, tls, namespace=_namespace(context), fetched=fetched)
    token_file = path.parent / user["tokenFile"] if "tokenFile" in user else None
    return Connection(server, tls, user.get("token", ""), token_file, _namespace(context))


def _namespace(context: Mapping[str, Any]) -> str:
    return str(context.get("namespace") or "default")


def _named(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _tls(place: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _text(place, cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _text(place, user, "client-certificate"), _text(place, user, "client-key")
    if certificate and key:
        _present(tls, Credential(certificate=certificate, key=key))
    return tls


def _present(tls: ssl.SSLContext, credential: Credential) -> None:
    """From now on new connections show this certificate."""
    # The library takes certificates from files alone; this one is of mode 0600 and gone at the end of the block.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{credential.certificate}\n{credential.key}\n")
        file.flush()
        tls.load_cert_chain(file.name)


def _text(place: Path, entry: Mapping[str, Any], name: str) -> str | None:
    """What a kubeconfig gives in base64, or as the path of a file."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return (place / entry[name]).read_text() if name in entry else None
