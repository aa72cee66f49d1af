"""Earlier owners of jobs, leavers and policies for their jobs, persons and groups of SCIM."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0065"
down_revision = "0064"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPEN = sa.text("state = 'open'")


def upgrade() -> None:
    op.create_table(
        "owner_spans",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False, comment="0: since the job began"),
        sa.Column("end_s", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_owner_spans_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owner_spans")),
    )
    op.create_index(op.f("ix_owner_spans_job_id"), "owner_spans", ["job_id"])
    op.create_table(
        "leaver_policies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(63), nullable=True, comment="null: any"),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("act", sa.String(16), nullable=False, comment="stop, keep, hand-over"),
        sa.Column(
            "keep_seconds", sa.BigInteger(), nullable=True, comment="kept for so long, then stopped"
        ),
        sa.Column(
            "until_ns", sa.BigInteger(), nullable=True, comment="kept until then, then stopped"
        ),
        sa.Column("heir_id", sa.Integer(), nullable=True),
        sa.Column("changed_by", sa.String(63), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_leaver_policies_tenant_id")
        ),
        sa.ForeignKeyConstraint(["heir_id"], ["users.id"], name=op.f("fk_leaver_policies_heir_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leaver_policies")),
    )
    op.create_table(
        "leavers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(63), nullable=True),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("act", sa.String(16), nullable=False, comment="stop, keep, hand-over"),
        sa.Column(
            "until_ns", sa.BigInteger(), nullable=True, comment="kept until then; null: no end"
        ),
        sa.Column("heir_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(8), nullable=False, comment="open, done"),
        sa.Column(
            "note", sa.String(400), nullable=False, comment="what is left, or why it is over"
        ),
        sa.Column("stopped", sa.Integer(), nullable=False, comment="jobs whose end was requested"),
        sa.Column("handed", sa.Integer(), nullable=False, comment="units that went to the heir"),
        sa.Column("made_by", sa.String(63), nullable=False),
        sa.Column("made_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_leavers_user_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_leavers_tenant_id")),
        sa.ForeignKeyConstraint(["heir_id"], ["users.id"], name=op.f("fk_leavers_heir_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leavers")),
    )
    op.create_index(op.f("ix_leavers_user_id"), "leavers", ["user_id"])
    op.create_index(
        "ix_leavers_open", "leavers", ["id"], sqlite_where=_OPEN, postgresql_where=_OPEN
    )
    op.create_table(
        "scim_users",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False, comment="wrote it"),
        sa.Column("external_id", sa.String(255), nullable=True),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("name_key", sa.String(255), nullable=False, comment="user_name in lower case"),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column(
            "body", sa.JSON(), nullable=False, comment="other attributes, as RFC 7643 has them"
        ),
        sa.Column("identity_id", sa.Integer(), nullable=True, comment="null: no rights yet"),
        sa.Column("is_due", sa.Boolean(), nullable=False, comment="its groups have changed"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["users.id"], name=op.f("fk_scim_users_account_id")
        ),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["signon_identities.id"], name=op.f("fk_scim_users_identity_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scim_users")),
        sa.UniqueConstraint("public_id", name=op.f("uq_scim_users_public_id")),
        sa.UniqueConstraint(
            "account_id", "name_key", name=op.f("uq_scim_users_account_id_name_key")
        ),
    )
    op.create_index(
        "ix_scim_users_account_id_external_id", "scim_users", ["account_id", "external_id"]
    )
    op.create_table(
        "scim_groups",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.String(255), nullable=True),
        sa.Column("display_name", sa.String(255), nullable=False, comment="as rules name it"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["users.id"], name=op.f("fk_scim_groups_account_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scim_groups")),
        sa.UniqueConstraint("public_id", name=op.f("uq_scim_groups_public_id")),
    )
    op.create_index(op.f("ix_scim_groups_account_id"), "scim_groups", ["account_id"])
    op.create_table(
        "scim_members",
        sa.Column("group_id", _BIG_ID, nullable=False),
        sa.Column("user_id", _BIG_ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["scim_groups.id"], name=op.f("fk_scim_members_group_id")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["scim_users.id"], name=op.f("fk_scim_members_user_id")
        ),
        sa.PrimaryKeyConstraint("group_id", "user_id", name=op.f("pk_scim_members")),
    )
    op.create_index(op.f("ix_scim_members_user_id"), "scim_members", ["user_id"])
