"""Who may do what: service accounts with rules of RBAC, and tokens, bound to a node where that
matters."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.cluster.api import Api, Object
from tests.support.cluster.directory import Directory
from tests.support.cluster.pki import Authority

RBAC = "rbac.authorization.k8s.io"
TOKEN_SECONDS = 24 * 3600


class Access:
    def __init__(self, admin: Api, directory: Directory, authority: Authority) -> None:
        self._admin = admin
        self._directory = directory
        self._authority = authority

    def namespace(self, name: str) -> None:
        self._admin.apply(
            f"/api/v1/namespaces/{name}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        )

    def service_account(self, namespace: str, name: str, rules: Sequence[Object]) -> None:
        """An account that may do, in the whole cluster, what the rules say; idempotent."""
        self.namespace(namespace)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self._admin.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}", account)
        role_name = f"{namespace}:{name}"
        common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": role_name}}
        self._admin.apply(
            f"/apis/{RBAC}/v1/clusterroles/{role_name}",
            {**common, "kind": "ClusterRole", "rules": [*rules]},
        )
        binding = {
            **common,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role_name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        }
        self._admin.apply(f"/apis/{RBAC}/v1/clusterrolebindings/{role_name}", binding)

    def token(self, namespace: str, name: str, node: str = "") -> str:
        """A token of the account. With a node, it says so to policies
        (`authentication.kubernetes.io/node-name`) and ends with the node."""
        spec: Object = {"expirationSeconds": TOKEN_SECONDS}
        if node:
            uid = self._admin.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self._admin.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked
        )
        return str(answer["status"]["token"])

    def agent(self, namespace: str, name: str, node: str) -> Api:
        """A client as a node's agent has one: it reads nodes, writes their status, and its token
        names the node."""
        nodes = {
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "verbs": ["get", "list", "watch", "patch"],
        }
        self.service_account(namespace, name, [nodes])
        return self.client(self.token(namespace, name, node))

    def client(self, token: str) -> Api:
        return Api.of_token(self._directory.port("api"), self._authority.root.certificate, token)

    def kubeconfig(self, file: str, token: str) -> Path:
        """For programs under test: a kubeconfig with the token in it."""
        return self._authority.kubeconfig_of(file, {"token": token})
