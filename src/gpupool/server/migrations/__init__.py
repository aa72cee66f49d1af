"""How the database of an older gpupool becomes this one's: Alembic revisions, packaged with the
code."""
