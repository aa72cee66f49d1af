"""Tables of networks, their subnets and the ports of jobs."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

networks = sa.Table(
    "networks",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("mtu", sa.Integer, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("has_gateway", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column(
        "is_default",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="jobs of its tenant that name no network join it",
    ),
    sa.Column("zone", sa.Integer, nullable=False, server_default="0"),
    # The last guard against one address for two gateways; the first is `addresses.choose_number`.
    sa.Column(
        "gateway_number",
        sa.Integer,
        nullable=True,
        index=True,
        unique=True,
        comment="of the gateway's address on the uplink; null: no gateway",
    ),
    sa.UniqueConstraint("tenant_id", "name"),
)

subnets = sa.Table(
    "subnets",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey("networks.id"), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("cidr", sa.String(18), nullable=False),
    sa.Column(
        "next_offset",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="where the search for a free address begins: addresses.choose_address",
    ),
    sa.Column(
        "probe_address",
        sa.String(15),
        nullable=True,
        comment="from which backends of load balancers are probed; null: none",
    ),
    sa.Column("cidr6", sa.String(43), nullable=True, comment="null: no IPv6"),
    sa.UniqueConstraint("network_id", "name"),
)

network_ports = sa.Table(
    "network_ports",
    metadata,
    # One row per allocation in a network, from its grant to its release.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey("networks.id"), nullable=False),
    sa.Column("subnet_id", sa.ForeignKey("subnets.id"), nullable=False),
    sa.Column("allocation_id", sa.ForeignKey("allocations.id"), nullable=False, unique=True),
    sa.Column("address", sa.String(15), nullable=False),
    sa.Column("name", sa.String(127), nullable=False, comment="DNS name in the network"),
    sa.Column(
        "mac", sa.String(17), nullable=True, comment="that its claim names; null: made of its id"
    ),
    sa.Column("address6", sa.String(39), nullable=True, comment="null: its subnet has no IPv6"),
    # The last guard against one address given twice; the first is `ports.create_port`.
    sa.UniqueConstraint("subnet_id", "address"),
    sa.UniqueConstraint("subnet_id", "address6"),
)

network_peerings = sa.Table(
    "network_peerings",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("requester_id", sa.ForeignKey("networks.id"), nullable=False),
    # An id as the requester wrote it, of a network or of none: the answer must not tell which.
    sa.Column("accepter", sa.String(16), nullable=False, index=True),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("accepted_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "link",
        sa.Integer,
        nullable=True,
        comment="number of its addresses between the two routers; null: not accepted",
    ),
    sa.Column(
        "agreed",
        sa.JSON,
        nullable=False,
        server_default="[]",
        comment="ids of the subnets of both sides that the owner of the other one agreed to",
    ),
    sa.UniqueConstraint("requester_id", "accepter"),
)

network_engine = sa.Table(
    "network_engine",
    metadata,
    # One row where networking is enabled.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(63), nullable=False, comment="whose node runs the databases"),
    sa.Column("state", sa.String(16), nullable=False, comment="starting, ready, failed, stopping"),
    sa.Column("reason", sa.String(400), nullable=False, comment="why it is in that state"),
    sa.Column(
        "uplink",
        sa.String(18),
        nullable=False,
        server_default="",
        comment="prefix between the networks and their machine; empty: none is set up",
    ),
    sa.Column("northbound", sa.String(200), nullable=False, comment="where the server connects"),
    sa.Column(
        "work_seq", sa.BigInteger, nullable=False, comment="when its agent last had news of it"
    ),
    sa.Column(
        "forward_ports",
        sa.String(11),
        nullable=False,
        server_default="",
        comment="ports of the machine for tenants, as 30000-30099; empty: none",
    ),
    sa.Column(
        "line_interface",
        sa.String(15),
        nullable=False,
        server_default="",
        comment="interface of the machine for dedicated lines; empty: none",
    ),
    sa.Column(
        "line_vlans",
        sa.String(9),
        nullable=False,
        server_default="",
        comment="VLANs for dedicated lines, as 200-299; empty: none",
    ),
    sa.Column(
        "zone_size",
        sa.Integer,
        nullable=False,
        server_default="300",
        comment="networks of a zone at most",
    ),
    sa.Column(
        "gateway_ipv6",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="whether gateways carry IPv6 too",
    ),
    sa.CheckConstraint("id = 1", name="one_row"),
)
