"""Texts of request bodies that the audit log shows, by shape. What is not listed is not shown.

Names of things, addresses of networks and words that people choose among. Never what can hold a
secret: passwords, tokens, keys, environments, commands, paths, addresses of chat receivers, notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: By the name of the wire shape, its text fields (also in lists) that are shown.
SHOWN_TEXTS: Final[Mapping[str, frozenset[str]]] = {
    "AddIn": frozenset({"model"}),
    "AdjustmentIn": frozenset({"tenant", "reason", "corrects"}),
    "AdoptIn": frozenset({"devices"}),
    "AllowedHost": frozenset({"host"}),
    "BandwidthLimitIn": frozenset({"target"}),
    "BudgetIn": frozenset({"tenant", "project", "user", "timezone"}),
    "CardWish": frozenset({"device"}),
    "ContainerIn": frozenset({"image"}),
    "DnsRecordIn": frozenset({"name", "address"}),
    "DrainIn": frozenset({"job"}),
    "ExposureIn": frozenset({"host", "name"}),
    "FirewallRuleIn": frozenset({"prefix", "network", "tenant"}),
    "FloatingIpIn": frozenset({"target", "address"}),
    "FlowLogIn": frozenset({"name", "job"}),
    "GatewayPairIn": frozenset({"nodes", "address", "upstream"}),
    "GroupIn": frozenset({"name"}),
    "HttpRouteIn": frozenset({"host", "backends"}),
    "JobIn": frozenset({"name", "tenant", "project", "priority", "reservation"}),
    "LdapSettings": frozenset({"base_dn"}),
    "LimitIn": frozenset({"resource"}),
    "LineIn": frozenset({"address", "speaker", "peer", "allowed", "announced"}),
    "LoadBalancerIn": frozenset({"name", "backends"}),
    "LoginExplainIn": frozenset({"user", "provider"}),
    "MailServerIn": frozenset({"host", "sender"}),
    "MirrorIn": frozenset({"name", "source", "target"}),
    "MoveIn": frozenset({"job", "cards"}),
    "NetworkEngineIn": frozenset({"forward_ports", "floating_ips", "node", "databases"}),
    "NetworkIn": frozenset({"name", "tenant"}),
    "NetworkJoinIn": frozenset({"name", "security_groups", "address", "address6"}),
    "NetworkVerificationIn": frozenset({"network", "tenant"}),
    "OidcSettings": frozenset({"issuer", "client_id", "pool_url"}),
    "PasswordLoginIn": frozenset({"provider"}),
    "PeeringIn": frozenset({"accepter"}),
    "PlaneNodeIn": frozenset({"name", "pod"}),
    "PlaneNodesIn": frozenset({"nodes"}),
    "PortForwardIn": frozenset({"target"}),
    "PriceListIn": frozenset({"currency", "timezone"}),
    "ProjectIn": frozenset({"name"}),
    "QuotaIn": frozenset({"cohort"}),
    "RateIn": frozenset({"model", "mechanism", "sharing"}),
    "ReservationIn": frozenset({"name", "tenant"}),
    "RoleIn": frozenset({"name"}),
    "RouteIn": frozenset({"prefix", "via", "subnet", "forwards"}),
    "RuleIn": frozenset({"provider", "group", "tenant", "project", "run_as"}),
    "SealIn": frozenset({"month"}),
    "SecurityGroupIn": frozenset({"name"}),
    "SecurityRuleIn": frozenset({"source"}),
    "ShapeIn": frozenset({"profile", "memory_typed", "model"}),
    "StreamIn": frozenset({"service"}),
    "SubnetIn": frozenset({"name", "cidr", "cidr6"}),
    "SubscriptionIn": frozenset({"name", "quiet_hours", "time_zone"}),
    "SyncIn": frozenset({"provider"}),
    "TenantIn": frozenset({"name"}),
    "TokenIn": frozenset({"user"}),
    "UserIn": frozenset({"name", "tenant", "unix_user", "run_as"}),
    "UserPatch": frozenset({"tenant", "unix_user", "run_as"}),
    "VisitIn": frozenset({"service"}),
    "WithinIn": frozenset({"required", "preferred"}),
}
