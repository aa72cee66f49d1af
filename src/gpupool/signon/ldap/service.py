"""Logins by an LDAP directory, and a brake on guesses, so that the pool is no tool to guess with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gpupool.base.errors import LoginLocked, UnknownProvider, WrongPassword
from gpupool.signon.ldap.directory import LdapDirectory
from gpupool.signon.local.locks import lock_seconds
from gpupool.signon.providers import ProviderService
from gpupool.signon.rules import ExternalPerson
from gpupool.wire.signon import PasswordLoginIn

#: Names whose failures are remembered; the oldest give way.
MOST_NAMES: Final = 10_000


class LdapLogins:
    """Logins by a directory. Thread-safe; blocks on directory and store.

    Failures are remembered in memory: the directory keeps its own lock over restarts of the pool.
    """

    def __init__(
        self,
        providers: ProviderService,
        clock: Callable[[], float],
    ) -> None:
        self._providers = providers
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def authenticate(self, name: str, body: PasswordLoginIn) -> ExternalPerson:
        """Return the person of a name and password of the directory; its rights are not looked at.

        Raises:
            WrongPassword: user or password is wrong.
            LoginLocked: too many were wrong.
            SignonRefused: the directory has several such persons, or one without identity.
            UnknownProvider: there is no such directory.
            ProviderUnreachable: it does not answer.
        """
        provider = self._providers.read_one(name)
        if provider.ldap is None:
            raise UnknownProvider(
                f"{name} is an OIDC provider, which takes no password here",
                hint=f"gpupool login URL --sso {name}",
            )
        # A directory finds one person by many texts: case, spaces and accents may not count, nor
        # which of its attributes a filter compares. So an entry counts, and a text without one.
        places = [(name, f"text:{body.user.lower()}")]
        self._refuse_locked(places[0])

        def check_entry(dn: str) -> None:
            places.append((name, f"entry:{dn.lower()}"))
            self._refuse_locked(places[-1])

        try:
            person = LdapDirectory(provider).authenticate(body.user, body.password, check_entry)
        except WrongPassword:
            self._note_failure(places[-1])
            raise
        with self._lock:
            self._failures.pop(places[-1], None)
        return person

    def _refuse_locked(self, place: tuple[str, str]) -> None:
        with self._lock:
            count, last = self._failures.get(place, (0, 0.0))
        left = lock_seconds(count) - (self._clock() - last)
        if count and left > 0:
            raise LoginLocked(
                f"{count} wrong passwords in a row: the login is locked for {left:.0f} s",
                hint="wait, and look whether the password changed",
                retry_after_seconds=round(left),
            )

    def _note_failure(self, place: tuple[str, str]) -> None:
        with self._lock:
            count, _ = self._failures.pop(place, (0, 0.0))
            self._failures[place] = (count + 1, self._clock())
            if len(self._failures) > MOST_NAMES:
                self._failures.popitem(last=False)
