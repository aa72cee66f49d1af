"""The chain of the audit log: the bytes of a record, its hash, and how a chain is verified.

Pure: the server that writes records and the command that verifies a file use the same functions.
Must not import a database or the network. Decision 0106 has the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: What the first record of a log names as the hash before it.
GENESIS: Final = "0" * 64
#: Fields of an exported record that are not part of its canonical bytes.
_CHAIN_FIELDS: Final = frozenset({"previous", "hash"})
#: Kinds that the log writes about itself.
CHECKPOINT: Final = "checkpoint"
GAP: Final = "gap"


def write_canonical(record: Mapping[str, Any]) -> str:
    """Write a record as JSON of ASCII characters: sorted names, no spaces, no fractions."""
    named = {name: value for name, value in record.items() if name not in _CHAIN_FIELDS}
    return json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def compute_hash(previous: str, canonical: str) -> str:
    """Compute the hash of a record: SHA-256 of the hash before it and of its canonical bytes."""
    return hashlib.sha256(previous.encode("ascii") + canonical.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class ChainHead:
    """The last record of a chain; `seq` 0 for an empty log."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True)
class ChainFault:
    """The first record that does not fit, and why."""

    seq: int
    reason: str


@dataclass(frozen=True)
class ChainReading:
    """What a verification found.

    Attributes:
        records: How many records fit.
        first_seq: Number of the first record; None without records.
        is_whole: The chain begins at record 1, or a checkpoint in it attests what was cut.
        lost_refusals: Refusals that the log itself says it lost.
        expected_seq: The record that has the expected hash; None: no record has it.
    """

    records: int
    first_seq: int | None
    first_ns: int | None
    last_ns: int | None
    head: ChainHead
    is_whole: bool
    lost_refusals: int
    expected_seq: int | None
    fault: ChainFault | None


class ChainVerifier:
    """Reads records in their order and stops at the first that does not fit."""

    def __init__(self, expected_hash: str | None = None) -> None:
        self._expected = expected_hash
        self._expected_seq: int | None = None
        self._records = 0
        self._lost = 0
        self._first_seq: int | None = None
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._start = ChainHead()
        self._head = ChainHead()
        self._is_attested = False
        self._fault: ChainFault | None = None

    def add(self, record: Mapping[str, Any]) -> bool:
        """Check the next record. Return False from the first fault on."""
        if self._fault is not None:
            return False
        reason = self._find_reason(record)
        if reason is not None:
            self.reject(reason)
            return False
        self._take(record)
        return True

    def reject(self, reason: str) -> None:
        """Note that the next record cannot be read."""
        seq = 1 if self._first_seq is None else self._head.seq + 1
        self._fault = self._fault or ChainFault(seq, reason)

    def read_result(self) -> ChainReading:
        """Return what was found so far."""
        begins_at_start = self._first_seq in (None, 1) and self._start.hash == GENESIS
        return ChainReading(
            self._records,
            self._first_seq,
            self._first_ns,
            self._last_ns,
            self._head,
            begins_at_start or self._is_attested,
            self._lost,
            self._expected_seq,
            self._fault,
        )

    def _find_reason(self, record: Mapping[str, Any]) -> str | None:
        seq = record.get("seq")
        previous = record.get("previous")
        if type(seq) is not int or seq < 1 or not _is_hash(previous):
            return "it has no number or no hash of the record before it"
        if type(record.get("at_ns")) is not int:
            return "it has no instant"
        if self._first_seq is not None:
            if seq != self._head.seq + 1:
                return f"record {seq} follows record {self._head.seq}"
            if previous != self._head.hash:
                return f"it names another record before it than record {self._head.seq}"
        elif seq == 1 and previous != GENESIS:
            return "record 1 names a record before it"
        if compute_hash(str(previous), write_canonical(record)) != record.get("hash"):
            return "its content does not have its hash"
        return None

    def _take(self, record: Mapping[str, Any]) -> None:
        seq = int(record["seq"])
        if self._first_seq is None:
            self._first_seq = seq
            self._first_ns = record["at_ns"]
            self._start = ChainHead(seq - 1, record["previous"])
        self._head = ChainHead(seq, record["hash"])
        self._last_ns = record["at_ns"]
        self._records += 1
        if self._expected == self._head.hash:
            self._expected_seq = seq
        data = record.get("data")
        if not isinstance(data, Mapping):
            return
        if record.get("kind") == CHECKPOINT:
            cut = (data.get("cut_seq"), data.get("cut_hash"))
            self._is_attested |= cut == (self._start.seq, self._start.hash)
        if record.get("kind") == GAP and type(data.get("lost")) is int:
            self._lost += data["lost"]


def _is_hash(value: object) -> bool:
    if not isinstance(value, str) or len(value) != 64:
        return False
    return all(char in "0123456789abcdef" for char in value)
