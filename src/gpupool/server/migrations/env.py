"""Alembic's entry: runs revisions on the connection it is given, inside that connection's
transaction."""

from __future__ import annotations

from alembic import context

from gpupool.server.schema import metadata

connection = context.config.attributes["connection"]
# SQLite changes a table by copying it ("batch"); constraints have names, so both databases agree.
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
