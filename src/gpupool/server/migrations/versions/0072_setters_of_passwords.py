"""A password says which user set it; of earlier ones that is not known. Deleted users have none."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0072"
down_revision = "0071"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        # The pages of a table that is copied may have secrets of before revision 0067 in clear.
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    # The row of a deleted user comes back with its name, which another person may get.
    op.execute(
        "DELETE FROM signon_passwords WHERE user_id IN"
        " (SELECT id FROM users WHERE retired_ns IS NOT NULL)"
    )
    copied: Literal["always", "never"] = "always" if is_sqlite else "never"
    with op.batch_alter_table("signon_passwords", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "set_by_id",
                sa.Integer(),
                nullable=True,
                comment="user that set it; null: not known",
            )
        )
