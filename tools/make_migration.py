"""Write an Alembic revision from what the tables say now; read it before you commit it.

    .venv/bin/python tools/make_migration.py "jobs learn of gangs"      the next revision
    .venv/bin/python tools/make_migration.py --initial                 the first one anew, while nothing is released

Compares the tables with a scratch database brought up by the existing revisions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.config import Config

from gpupool.server.migrate import MIGRATIONS, known_revisions
from gpupool.store.database import connect, sqlite_url


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("message", nargs="?", default="The first schema")
    parser.add_argument(
        "--initial", action="store_true", help="replace revision 0001 instead of adding one"
    )
    args = parser.parse_args()
    if args.initial:
        _remove_initial()
    elif args.message == parser.get_default("message"):
        parser.error("say what changes")
    _write(args.message)
    return 0


def _remove_initial() -> None:
    known = known_revisions()
    if len(known) > 1:
        sys.exit(
            f"revisions {known[1]} to {known[-1]} build on the first one; add a revision instead"
        )
    for old in (MIGRATIONS / "versions").glob("0001_*.py"):
        old.unlink()


def _write(message: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        engine = connect(sqlite_url(Path(scratch) / "scratch.db"))
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            number = f"{int(known_revisions()[-1]) + 1:04d}" if known_revisions() else "0001"
            made = command.revision(config, message, autogenerate=True, rev_id=number)
        engine.dispose()
    path = Path(made.path)  # type: ignore[union-attr]  # one message makes one revision
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "# ###" not in line)
    )
    for step in (["format", "-q"], ["check", "--fix", "-q"], ["format", "-q"]):
        subprocess.run([str(Path(sys.executable).with_name("ruff")), *step, str(path)], check=True)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
