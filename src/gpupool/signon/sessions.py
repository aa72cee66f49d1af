"""The one way from a checked person to a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from gpupool.base.errors import SignonRefused
from gpupool.signon import tables
from gpupool.signon.admission import Admission, AdmissionFacts, AdmissionRefusal, admit_person
from gpupool.signon.rules import ExternalPerson
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.logins import LoginGrant, find_login_user
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens
from gpupool.tenancy.token_secrets import parse_token
from gpupool.tenancy.token_tree import end_tokens
from gpupool.tenancy.tokens import TokenService
from gpupool.wire.people import LoginOut

T = TypeVar("T")
#: Makes a session in the transaction; returns its id and what the caller gets of it.
OpenSession = Callable[[WriteTransaction, LoginGrant], tuple[str, T]]


class PersonSessions:
    """Sessions of persons that a provider authenticated. Thread-safe."""

    def __init__(self, store: Store, issuer: TokenService, facts: AdmissionFacts) -> None:
        self._store = store
        self._issuer = issuer
        self._facts = facts

    def open_token(self, person: ExternalPerson) -> LoginOut:
        """Give the person what the rules say, and a session for its command line.

        Raises:
            SignonRefused: no rule matches, or what it gives cannot be given now.
        """
        return self.open_session(person, self._issue_token)

    def open_session(self, person: ExternalPerson, opener: OpenSession[T]) -> T:
        """Give the person what the rules say, and the session that `opener` makes.

        Raises:
            SignonRefused: no rule matches, or what it gives cannot be given now.
        """
        with self._store.write() as write:
            outcome = admit_person(write, self._facts, person)
            if isinstance(outcome, Admission):
                return self._record_login(write, outcome, person, opener)
            data = {"provider": person.provider, "reason": outcome.reason}
            write.event("signon.refused", person.name[:80], data=data)
        # After the commit: a refusal may have taken rights away, and that must last.
        raise _make_refusal(outcome, person)

    def end_sessions(self, issuer: str, subject: str | None, session: str | None) -> int:
        """End the sessions that came of a provider's session, or all of a person; return how many.

        Args:
            issuer: of the provider.
            subject: of the person; None: `session` alone says which.
            session: the provider's `sid`; None: all of the person.
        """
        which = sa.select(tables.logins.c.login_id).join(tables.identities)
        which = which.where(tables.identities.c.issuer == issuer)
        if subject is not None:
            which = which.where(tables.identities.c.subject == subject)
        if session is not None:
            which = which.where(tables.logins.c.session_id == session)
        with self._store.write(freeing=True) as write:
            ids = list(write.execute(which).scalars())
            ended = 0
            if ids:
                ended = end_tokens(write, tokens.c.id.in_(ids))
                ended += end_sessions(write, sessions.c.id.in_(ids))
            if ended:
                write.event("signon.logout", issuer[:80], data={"ended": ended})
        return ended

    def _record_login(
        self,
        write: WriteTransaction,
        admission: Admission,
        person: ExternalPerson,
        opener: OpenSession[T],
    ) -> T:
        # It may make tokens: an admin makes those of service accounts in the console. They end when
        # rules or a sync take the person's rights away.
        user = find_login_user(write.connection, admission.user_id)
        login_id, login = opener(write, LoginGrant(user, may_mint=True))
        row = {
            "login_id": login_id,
            "identity_id": admission.identity_id,
            "session_id": person.session,
        }
        write.execute(tables.logins.insert().values(**row))
        write.event(
            "signon.login",
            admission.user,
            tenant_id=admission.tenant_id,
            data={"provider": person.provider},
        )
        return login

    def _issue_token(self, write: WriteTransaction, grant: LoginGrant) -> tuple[str, LoginOut]:
        login = self._issuer.open_session(write, grant)
        made = parse_token(login.token)
        assert made is not None
        return made.id, login


def _make_refusal(refusal: AdmissionRefusal, person: ExternalPerson) -> SignonRefused:
    groups = list(person.groups[:100])
    return SignonRefused(refusal.reason, hint=refusal.hint, groups=groups)
