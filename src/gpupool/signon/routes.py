"""Routes of sign-on that need a login, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.signon.service import SignonService
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.signon import (
    LoginExplainIn,
    LoginExplainOut,
    PasswordIn,
    ProviderIn,
    ProviderOut,
    ProviderTestOut,
    RulesIn,
    RulesOut,
    SyncIn,
    SyncOut,
    TotpIn,
    TotpOut,
)

router = Router(tags=["sign-on"])


def get_signon(request: Request) -> SignonService:
    signon: SignonService = request.app.state.signon
    return signon


Service = Annotated[SignonService, Depends(get_signon)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]


@router.get("/sso/providers")
def list_providers(signon: Service, _caller: PoolManager) -> list[ProviderOut]:
    """Identity providers by name, without their secrets."""
    return signon.providers.list_providers()


@router.get("/sso/providers/{provider}")
def get_provider(provider: str, signon: Service, _caller: PoolManager) -> ProviderOut:
    """One identity provider, without its secret."""
    return signon.providers.get_provider(provider)


@router.put("/sso/providers/{provider}")
def put_provider(
    provider: str, body: ProviderIn, signon: Service, _caller: PoolManager
) -> ProviderOut:
    """Add an identity provider or replace the one of that name; a null secret stays as it is."""
    return signon.providers.put_provider(provider, body)


@router.delete("/sso/providers/{provider}", status_code=204)
def delete_provider(provider: str, signon: Service, _caller: PoolManager) -> Response:
    """Delete an identity provider. Its persons stay users; refused while a rule names it."""
    signon.providers.delete_provider(provider)
    return Response(status_code=204)


@router.post("/sso/providers/{provider}/test")
def check_provider(provider: str, signon: Service, _caller: PoolManager) -> ProviderTestOut:
    """Ask a provider what a login would ask it, and say what it answers."""
    return signon.check_provider(provider)


@router.get("/sso/rules")
def get_rules(signon: Service, _caller: PoolManager, response: Response) -> RulesOut:
    """Rules from groups to rights, in order. The `ETag` names their generation."""
    rules, generation = signon.rules.get_rules()
    response.headers["ETag"] = f'"{generation}"'
    return rules


@router.put("/sso/rules")
def put_rules(
    body: RulesIn,
    signon: Service,
    caller: PoolManager,
    response: Response,
    if_match: IfMatch = None,
) -> RulesOut:
    """Set all rules; they count from the next login on. With `If-Match`, only if they are still the
    ones that were read."""
    rules, generation = signon.rules.put_rules(caller, body, parse_generation(if_match))
    response.headers["ETag"] = f'"{generation}"'
    return rules


@router.post("/sso/explain")
def explain_login(body: LoginExplainIn, signon: Service, _caller: PoolManager) -> LoginExplainOut:
    """What a login of these groups would get. Changes nothing."""
    return signon.rules.explain(body)


@router.post("/sso/sync")
def sync_leavers(body: SyncIn, signon: Service, caller: PoolManager) -> SyncOut:
    """Disable the users that the directory no longer has, and give the others what their groups
    give now."""
    return signon.sync(caller, body)


@router.put("/users/{user}/password", status_code=204)
def put_password(user: str, body: PasswordIn, signon: Service, caller: Reader) -> Response:
    """Set the password of a local account: the caller's own, or as an admin another user's. Its sessions end."""
    signon.local.set_password(caller, user, body.password, body.current)
    return Response(status_code=204)


@router.delete("/users/{user}/password", status_code=204)
def delete_password(user: str, signon: Service, caller: Reader) -> Response:
    """Remove password and authenticator: the user logs in by tokens or a provider alone."""
    signon.local.remove_password(caller, user)
    return Response(status_code=204)


@router.post("/users/{user}/totp", status_code=201)
def create_totp(user: str, signon: Service, caller: Reader) -> TotpOut:
    """Make the secret of the caller's authenticator. It is shown in this answer and never again."""
    return signon.local.begin_totp(caller, user)


@router.put("/users/{user}/totp", status_code=204)
def confirm_totp(user: str, body: TotpIn, signon: Service, caller: Reader) -> Response:
    """Let logins need a code of the authenticator from now on."""
    signon.local.confirm_totp(caller, user, body.code)
    return Response(status_code=204)


@router.delete("/users/{user}/totp", status_code=204)
def delete_totp(user: str, signon: Service, caller: Reader) -> Response:
    """Remove the authenticator of a user: an admin's help after a lost telephone."""
    signon.local.remove_totp(caller, user)
    return Response(status_code=204)
