"""Encrypts and decrypts the secrets of one store, and changes their key.

The first secret makes the key: until then there is none to lose. In the same transaction what an
earlier version stored in clear is encrypted, so either every secret of a column is encrypted or none
is. Columns that a later version marks are encrypted at its first start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from gpupool.base.errors import (
    GpupoolError,
    SecretDamaged,
    SecretKeyMissing,
    SecretKeyUnusable,
    SecretKeyWrong,
)
from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.store.secrets.cipher import (
    SecretKey,
    decrypt_text,
    encrypt_text,
    find_key_id,
    make_key,
)
from gpupool.store.secrets.columns import (
    SecretColumn,
    build_context,
    find_column_name,
    list_secret_columns,
)
from gpupool.store.secrets.key_file import MemoryKeys, SecretKeys
from gpupool.store.secrets.tables import secret_state
from gpupool.store.write_transaction import WriteTransaction

if TYPE_CHECKING:
    from gpupool.store.database import Store

log = logging.getLogger(__name__)

#: What `SecretVault.decrypt` raises.
SECRET_ERRORS: Final = (SecretKeyMissing, SecretKeyWrong, SecretKeyUnusable, SecretDamaged)

#: From context and stored text to the secret; None: leave the stored text.
OpenText = Callable[[bytes, str], str | None]


@dataclass(frozen=True)
class VaultState:
    """What is known of the secrets; `problem` is None where they can be decrypted."""

    key_id: str | None
    place: str
    values: int
    other_keys: int
    problem: GpupoolError | None


class SecretVault:
    """The secrets of one store. Thread-safe; `begin` it once its server may write."""

    def __init__(self, keys: SecretKeys | None = None) -> None:
        self._keys = keys or MemoryKeys()
        self._lock = threading.Lock()
        self._known: Mapping[str, SecretKey] = {}
        #: Of the row in the database, which only this server writes; None: nothing is encrypted.
        self._key_id: str | None = None
        #: Columns of which every secret is encrypted.
        self._covered = frozenset[str]()

    @property
    def place(self) -> str:
        """Where the keys are, for people."""
        return self._keys.place

    def begin(self, store: Store) -> None:
        """Encrypt what an earlier version stored in clear. Idempotent.

        A key that is missing stops no pool: its jobs need none. `check` tells of it.
        """
        with store.read() as connection:
            self._key_id = read_key_id(connection)
            self._covered = _read_covered(connection)
            missing = _list_missing(self._covered)
            # With a key a column without secrets is noted too: from then on clear text is refused.
            is_due = (
                bool(missing)
                if self._key_id
                else any(_has_secret(connection, one) for one in missing)
            )
        if not is_due:
            return
        try:
            with store.write() as write:
                self._ensure_key(write)
        except GpupoolError as error:
            log.warning("secrets stay in clear in the database: %s", error.message)

    def encrypt(
        self, write: WriteTransaction, column: sa.Column[Any], row: object, text: str
    ) -> str:
        """Encrypt the value of a marked column; an empty text stays empty.

        Args:
            row: What the column's row key is, or will be, in this row.

        Raises:
            SecretKeyMissing: there is no key file, and secrets are encrypted already.
            SecretKeyWrong: the key file lacks the key.
            SecretKeyUnusable: the key file cannot be read, made or trusted.
        """
        if not text:
            return ""
        return encrypt_text(self._ensure_key(write), text, build_context(column, row))

    def decrypt(self, column: sa.Column[Any], row: object, text: str | None) -> str:
        """Return the secret of a stored value; empty where there is none.

        Raises:
            SecretKeyMissing: there is no key file.
            SecretKeyWrong: the key file lacks the key of this value.
            SecretKeyUnusable: the key file cannot be read or trusted.
            SecretDamaged: the value was altered, or moved here from another row.
        """
        if not text:
            return ""
        return self._open(build_context(column, row), text)

    def is_given_up(self, text: str | None) -> bool:
        """Whether a stored value is left of a key that was given up as lost.

        A rotation encrypts every value but those by its key.
        """
        key_id = find_key_id(text or "")
        return None not in (key_id, self._key_id) and key_id != self._key_id

    def rotate(
        self, store: Store, *, drop_old: bool = False, give_up_lost: bool = False
    ) -> VaultState:
        """Encrypt every secret by a new key, then forget the old ones if told so.

        The new key is in the file before it is used: a rotation that was killed goes on with it.

        Args:
            give_up_lost: Leave secrets that no key opens; they are refused until they are set again.

        Raises what `decrypt` does.
        """
        with store.read() as connection:
            key_id = read_key_id(connection)
        if key_id is not None:
            if not give_up_lost:
                self._find_key(key_id)
            keys = list(self._keys.read_or_make() if give_up_lost else self._keys.read())
            if keys[0].id == key_id:
                keys.insert(0, make_key())
                self._keys.replace(keys)
            self._change_key(store, keys[0], self._open_known if give_up_lost else self._open)
            if drop_old:
                self._keys.replace(keys[:1])
                with self._lock:
                    self._known = {keys[0].id: keys[0]}
        with store.read() as connection:
            return self.describe(connection)

    def describe(self, connection: sa.Connection) -> VaultState:
        """Describe key and secrets. Raises nothing about keys."""
        key_id = read_key_id(connection)
        values = sum(_count_secrets(connection, one) for one in list_secret_columns())
        problem = None
        others = 0
        try:
            if key_id is not None:
                self._find_key(key_id)
                others = len(self._keys.read()) - 1
        except GpupoolError as error:
            problem = error
        return VaultState(key_id, self.place, values, others, problem)

    def check(self) -> CheckFinding:
        """Check that secrets can be decrypted."""
        if self._key_id is None:
            return well("no secret is stored")
        try:
            # The file, not memory: after the next start nothing else is left.
            found = {key.id for key in self._keys.read()}
            if self._key_id not in found:
                raise self._make_wrong(self._key_id, found)
        except GpupoolError as error:
            is_usable = self._key_id in self._known
            words = "secrets work until the next start" if is_usable else "secrets cannot be used"
            make = warn if is_usable else fail
            return make(f"{error.code}: {error.message}; {words}", error.hint)
        return well(f"encrypted by the key {self._key_id} in {self.place}")

    def check_key(self, connection: sa.Connection) -> None:
        """Raise SecretKeyMissing or SecretKeyWrong where this server lacks the database's key."""
        key_id = read_key_id(connection)
        if key_id is not None:
            self._find_key(key_id)

    def _ensure_key(self, write: WriteTransaction) -> SecretKey:
        key_id = read_key_id(write.connection)
        key = self._keys.read_or_make()[0] if key_id is None else self._find_key(key_id)
        missing = _list_missing(_read_covered(write.connection))
        if key_id is not None and not missing:
            return key
        # Nothing is written to a column before it is covered, so all of it is in clear.
        count = _encrypt_rows(write, key, lambda _context, text: text, missing)
        if key_id is None:
            values = {"key_id": key.id, "covered": _list_names(), "changed_ns": write.now_ns}
            write.insert(secret_state, id=1, **values)
        else:
            write.execute(secret_state.update().values(covered=_list_names()))
        self._finish_change(write, key, "encrypted", count)
        return key

    def _change_key(self, store: Store, key: SecretKey, open_text: OpenText) -> None:
        with store.write() as write:
            if read_key_id(write.connection) != key.id:
                count = _encrypt_rows(write, key, open_text, list_secret_columns())
                values = {"key_id": key.id, "covered": _list_names(), "changed_ns": write.now_ns}
                write.execute(secret_state.update().values(**values))
                self._finish_change(write, key, "rotated", count)

    def _finish_change(
        self, write: WriteTransaction, key: SecretKey, what: str, count: int
    ) -> None:
        def remember() -> None:
            with self._lock:
                self._known = {**self._known, key.id: key}
                self._key_id = key.id
                self._covered = frozenset(_list_names())

        write.note(remember)
        write.event(f"secrets.{what}", key.id, data={"values": count})

    def _open(self, context: bytes, text: str) -> str:
        key_id = find_key_id(text)
        if key_id is not None:
            return decrypt_text(self._find_key(key_id), text, context)
        if self._key_id is None or find_column_name(context) not in self._covered:
            return text
        raise SecretDamaged(
            f"the secret of {context.decode()} is in clear, and every secret is encrypted",
            hint="set the secret again: something else than gpupool wrote it",
            place=context.decode(),
        )

    def _open_known(self, context: bytes, text: str) -> str | None:
        try:
            return self._open(context, text)
        except (SecretKeyMissing, SecretKeyWrong, SecretDamaged) as error:
            log.warning("a secret is given up: %s", error.message)
            return None

    def _find_key(self, key_id: str) -> SecretKey:
        known = self._known.get(key_id)
        if known is not None:
            return known
        # Read again for a key that is not known: an operator may have put the file back.
        found = {key.id: key for key in self._keys.read()}
        if key_id not in found:
            raise self._make_wrong(key_id, set(found))
        with self._lock:
            self._known = {**self._known, **found}
        return found[key_id]

    def _make_wrong(self, key_id: str, found: set[str]) -> GpupoolError:
        return SecretKeyWrong(
            f"the secrets need the key {key_id}, and {self.place} has "
            f"{', '.join(sorted(found)) or 'none'}",
            hint="add the line of that key to the file; all servers of a pool need the same file; if "
            "it is lost:  gpupool secrets rotate --lost",
            file=self.place,
            key=key_id,
        )


def read_key_id(connection: sa.Connection) -> str | None:
    """Read the id of the key that encrypts; None: no secret was ever stored."""
    return connection.execute(sa.select(secret_state.c.key_id)).scalar_one_or_none()


def _read_covered(connection: sa.Connection) -> frozenset[str]:
    """Read the columns of which every secret is encrypted."""
    found = connection.execute(sa.select(secret_state.c.covered)).scalar_one_or_none()
    return frozenset(found or ())


def _list_names() -> list[str]:
    return [one.name for one in list_secret_columns()]


def _list_missing(covered: Collection[str]) -> list[SecretColumn]:
    return [one for one in list_secret_columns() if one.name not in covered]


def _encrypt_rows(
    write: WriteTransaction, key: SecretKey, open_text: OpenText, columns: Sequence[SecretColumn]
) -> int:
    """Encrypt every secret of columns by a key, but those that cannot be opened; return how many."""
    if write.connection.dialect.name == "sqlite":
        # Else what was in clear stays in free parts of pages, and in copies of the file.
        write.connection.exec_driver_sql("PRAGMA secure_delete=ON")
    count = 0
    for one in columns:
        rows: Sequence[Any] = write.execute(sa.select(one.row_key, one.column)).all()
        for row_key, value in rows:
            context = build_context(one.column, row_key)
            text = one.read_text(value) and open_text(context, one.read_text(value))
            if text:
                encrypted = encrypt_text(key, text, context)
                changed = {one.column.name: one.replace_text(value, encrypted)}
                write.execute(
                    one.column.table.update().where(one.row_key == row_key).values(**changed)
                )
                count += 1
    return count


def _count_secrets(connection: sa.Connection, one: SecretColumn) -> int:
    return sum(1 for value in _read_values(connection, one) if one.read_text(value))


def _has_secret(connection: sa.Connection, one: SecretColumn) -> bool:
    return any(one.read_text(value) for value in _read_values(connection, one))


def _read_values(connection: sa.Connection, one: SecretColumn) -> sa.ScalarResult[Any]:
    query = sa.select(one.column).where(one.column.is_not(None))
    if one.field is None:
        query = query.where(one.column != "")
    return connection.execute(query).scalars()
