"""Compiled configuration as admins get it, and what targets have as admins report it. Thread-safe."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.errors import BadInput, UnknownPlane, WrongState
from gpupool.model.tenant import Principal
from gpupool.network.planes.files import compile_files, list_targets
from gpupool.network.planes.partitions import read_port_keys
from gpupool.network.planes.reading import hash_text, read_facts
from gpupool.network.planes.storage_access import read_access
from gpupool.network.planes.tables import plane_evidence
from gpupool.store.database import Store
from gpupool.wire.network.planes import PlaneEvidenceOut, PlaneFile, PlaneReportIn


class PlaneEvidenceService:
    """Files of planes, and the evidence of what targets have."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_files(self) -> list[PlaneFile]:
        """Compile the files of every plane that tenants demand, by name."""
        with self._store.read() as connection:
            files = compile_files(read_facts(connection))
            query = sa.select(plane_evidence.c.target, plane_evidence.c.hash)
            reported = {row.target: row.hash for row in connection.execute(query)}
        found = list[PlaneFile]()
        for name, text in sorted(files.items()):
            digest = hash_text(text)
            is_applied = reported.get(name) == digest
            found.append(PlaneFile(name=name, hash=digest, text=text, is_applied=is_applied))
        return found

    def list_evidence(self) -> list[PlaneEvidenceOut]:
        """List the last report of each target, by name."""
        query = sa.select(plane_evidence).order_by(plane_evidence.c.target)
        with self._store.read() as connection:
            return [_describe(row) for row in connection.execute(query)]

    def report(self, caller: Principal, target: str, body: PlaneReportIn) -> PlaneEvidenceOut:
        """Note what a target has: a compiled file by its hash, or what was read from it.

        Raises:
            UnknownPlane: the inventory has no such target.
            WrongState: the hash is that of another configuration than the compiled one.
            BadInput: neither or both of hash and text are there, or the text is not readable.
        """
        if (body.hash is None) == (body.text is None):
            raise BadInput("a report has either a hash or a text", hint="--hash HASH, or a file")
        if body.text is not None:
            _check_text(target, body.text)
        with self._store.write() as write:
            facts = read_facts(write.connection)
            if target not in list_targets(facts):
                raise UnknownPlane(
                    f"the inventory of planes has no target {target[:80]!r}",
                    hint="gpupool network plane-compile  lists them",
                )
            text = body.text
            if text is None:
                text = compile_files(facts).get(target)
                digest = None if text is None else hash_text(text)
                if text is None or digest != body.hash:
                    raise WrongState(
                        f"{target} was compiled again since {str(body.hash)[:12]}",
                        hint="gpupool network plane-compile, apply the file, and report that",
                    )
            values = {
                "source": "text" if body.hash is None else "hash",
                "hash": hash_text(text),
                "text": text,
                "reporter": caller.user,
                "seen_ns": write.now_ns,
            }
            ours = plane_evidence.c.target == target
            if not write.execute(plane_evidence.update().where(ours).values(**values)).rowcount:
                write.insert(plane_evidence, target=target, **values)
            data = {"source": values["source"], "hash": values["hash"]}
            write.event("network.plane_reported", target, data=data)
            write.announce("fleet")
            row = write.execute(sa.select(plane_evidence).where(ours)).one()
            out = _describe(row)
            write.answer(200, out.model_dump(mode="json"))
        return out


def _check_text(target: str, text: str) -> None:
    """Raise BadInput for what nothing can be read from, so that it decides nothing later."""
    try:
        if target.endswith(".pkeys"):
            read_port_keys(text)
        elif target.endswith((".spdk.json", ".nvmet.sh")):
            read_access(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{target}: the text cannot be read: {str(error)[:200]}",
            hint="report the file, or the output of the target's own tool, unchanged",
        ) from error


def _describe(row: sa.Row[tuple[object, ...]]) -> PlaneEvidenceOut:
    return PlaneEvidenceOut(
        name=row.target,
        source=row.source,
        hash=row.hash,
        reporter=row.reporter,
        seen_ns=row.seen_ns,
    )
