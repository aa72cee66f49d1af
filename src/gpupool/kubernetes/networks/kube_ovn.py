"""Kube-OVN's kinds as gpupool writes them: where each is, its names, and what cannot change.

Source: github.com/kubeovn/kube-ovn, `pkg/apis/kubeovn/v1` at 1533681d (1.17.0). Field names are
checked against the definitions of the cluster before anything is written (`definitions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpupool.kubernetes.resources import names

GROUP: Final = "kubeovn.io"
API_VERSION: Final = f"{GROUP}/v1"
#: Label of each object that gpupool has made: the name of its Tenant.
OWNER: Final = f"{names.GROUP}/tenant"
#: Begin of the names of objects that gpupool makes.
PREFIX: Final = "gp"

Json = dict[str, Any]


@dataclass(frozen=True)
class KubeOvnKind:
    """A kind of Kube-OVN.

    Attributes:
        fixed: fields that Kube-OVN does not change after creation.
    """

    name: str
    plural: str
    fixed: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"/apis/{API_VERSION}/{self.plural}"

    @property
    def definition_path(self) -> str:
        return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.plural}.{GROUP}"


#: In the order of creation; objects are deleted in the reverse order.
KINDS: Final = (
    KubeOvnKind("Vpc", "vpcs"),
    KubeOvnKind("Subnet", "subnets", ("vpc", "protocol", "cidrBlock")),
    KubeOvnKind("QoSPolicy", "qos-policies"),
    KubeOvnKind("VpcNatGateway", "vpc-nat-gateways", ("vpc", "subnet", "lanIp")),
    KubeOvnKind("IptablesEIP", "iptables-eips", ("natGwDp", "externalSubnet", "v4ip")),
    KubeOvnKind("IptablesSnatRule", "iptables-snat-rules"),
    KubeOvnKind("IptablesFIPRule", "iptables-fip-rules"),
    KubeOvnKind("IptablesDnatRule", "iptables-dnat-rules"),
    KubeOvnKind("SwitchLBRule", "switch-lb-rules"),
)
KIND_BY_NAME: Final[Mapping[str, KubeOvnKind]] = {kind.name: kind for kind in KINDS}

#: Addresses that Kube-OVN takes in a subnet. The one that it probes balancers from has the subnet's
#: name, and may stay behind when the last balancer goes (1.17.0): the subnet is then never gone.
VIPS_PATH: Final = f"/apis/{API_VERSION}/vips"

#: Kind and name of an object.
Key = tuple[str, str]


def key_of(found: Mapping[str, Any]) -> Key:
    """Return kind and name of the object."""
    return found["kind"], found["metadata"]["name"]


def find_owner(found: Mapping[str, Any]) -> str | None:
    """Return the Tenant whose network the object is part of; None: gpupool has not made it."""
    owner: str | None = (found["metadata"].get("labels") or {}).get(OWNER)
    return owner


def name_network(tenant: str, part: str = "") -> str:
    """Return the name of a tenant's VPC, or of a part of it.

    Two tenants never share one: a tenant with a network has no double hyphen in its name.

    >>> name_network("vision"), name_network("vision", "train")
    ('gp-vision', 'gp-vision--train')
    """
    whole = f"{PREFIX}-{tenant}"
    return f"{whole}--{part}" if part else whole
