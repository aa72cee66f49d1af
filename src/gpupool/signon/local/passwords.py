"""Password hashes: Argon2id, by argon2-cffi of the extra `sso`."""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import Any, Final

from gpupool.base.errors import BadOption, TooManyRequests
from gpupool.signon.libraries import import_library

#: RFC 9106, 4: the second recommended choice, 64 MiB.
PASSES: Final = 3
MEMORY_KIB: Final = 64 << 10
LANES: Final = 4
#: NIST SP 800-63B-4, 3.1.1.2 wants 15 where the password is the only factor.
SHORTEST: Final = 15
#: Hashes at a time: each takes 64 MiB and a core for 50 ms, and strangers ask for them.
_TURNS: Final = BoundedSemaphore(2)
_WAIT_SECONDS: Final = 5.0


class PasswordHashes:
    """Makes and checks hashes. Thread-safe."""

    def __init__(self, passes: int = PASSES, memory_kib: int = MEMORY_KIB) -> None:
        self._passes = passes
        self._memory_kib = memory_kib
        self._hasher: Any = None
        self._decoy = ""

    def make_hash(self, password: str) -> str:
        """Hash a password. Raises TooManyRequests, SignonUnavailable."""
        hasher = self._get_hasher()
        with _Turn():
            return str(hasher.hash(password))

    def is_right(self, stored: str | None, password: str) -> bool:
        """Return whether the password is that of the hash.

        Without a hash it takes as long and is wrong: a stranger cannot tell which users there are.
        """
        hasher = self._get_hasher()
        errors = import_library("argon2.exceptions", "a local password")
        with _Turn():
            if not self._decoy:
                self._decoy = str(hasher.hash("decoy"))
            try:
                is_same = bool(hasher.verify(stored or self._decoy, password))
            except (errors.VerificationError, errors.InvalidHashError):
                return False
        return is_same and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Return whether the hash was made with other costs than today's."""
        return bool(self._get_hasher().check_needs_rehash(stored))

    def _get_hasher(self) -> Any:
        if self._hasher is None:
            argon2 = import_library("argon2", "a local password")
            self._hasher = argon2.PasswordHasher(self._passes, self._memory_kib, LANES)
        return self._hasher


class _Turn:
    """One of the two hashes at a time."""

    def __enter__(self) -> None:
        if not _TURNS.acquire(timeout=_WAIT_SECONDS):
            raise TooManyRequests(
                "too many logins with a password at a time",
                hint="try again in 5 s",
                retry_after_seconds=5,
            )

    def __exit__(self, *_: object) -> None:
        _TURNS.release()


def check_password(password: str, user: str) -> None:
    """Refuse a password that is too short or says the user's name.

    Raises:
        BadOption: it is one.
    """
    if len(password) < SHORTEST:
        raise BadOption(
            f"the password has {len(password)} characters; at least {SHORTEST} are needed",
            hint="a sentence of four words is easy to remember",
            least=SHORTEST,
        )
    if user.lower() in password.lower() or len(set(password)) < 5:
        raise BadOption(
            "the password is the first that an attacker tries: it has the user's name, or fewer "
            "than 5 different characters",
            hint="a sentence of four words is easy to remember",
        )
