"""The routes of SCIM 2.0, below /scim/v2. Thin: parse, ask, answer in the words of RFC 7644."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.signon.scim import discovery
from gpupool.signon.scim.library import load_scim
from gpupool.signon.scim.listing import parse_attributes
from gpupool.signon.scim.resources import dump_resource
from gpupool.signon.scim.service import ScimService
from gpupool.tenancy.access import require_caller

router = Router(tags=["sign-on"], include_in_schema=False)
MEDIA_TYPE: Final = "application/scim+json"
Account = Annotated[Principal, Depends(require_caller(Permission.SCIM))]


class ScimAnswer(JSONResponse):
    """JSON of the media type of SCIM."""

    media_type = MEDIA_TYPE


def get_scim(request: Request) -> ScimService:
    scim: ScimService = request.app.state.signon.scim
    return scim


Service = Annotated[ScimService, Depends(get_scim)]


@router.get("/ServiceProviderConfig")
def get_config(scim: Service, caller: Account) -> Response:
    """What this endpoint can do."""
    return _answer(scim, caller, lambda: ScimAnswer(discovery.build_config()))


@router.get("/ResourceTypes")
def list_resource_types(scim: Service, caller: Account) -> Response:
    """User and Group."""
    return _answer(
        scim,
        caller,
        lambda: ScimAnswer(discovery.wrap_list(discovery.list_resource_types())),
    )


@router.get("/ResourceTypes/{name}")
def get_resource_type(name: str, scim: Service, caller: Account) -> Response:
    """One resource type."""
    return _answer(scim, caller, lambda: ScimAnswer(_find(discovery.list_resource_types(), name)))


@router.get("/Schemas")
def list_schemas(scim: Service, caller: Account) -> Response:
    """The schemas of User and Group."""
    return _answer(scim, caller, lambda: ScimAnswer(discovery.wrap_list(discovery.list_schemas())))


@router.get("/Schemas/{name}")
def get_schema(name: str, scim: Service, caller: Account) -> Response:
    """One schema."""
    return _answer(scim, caller, lambda: ScimAnswer(_find(discovery.list_schemas(), name)))


@router.get("/Users")
def list_users(request: Request, scim: Service, caller: Account) -> Response:
    """Persons, by `filter`, `startIndex` and `count`."""
    return _answer(
        scim,
        caller,
        lambda: _list(scim.users.list_users(caller, request.query_params, _base(request))),
    )


@router.post("/Users", status_code=201)
async def create_user(request: Request, scim: Service, caller: Account) -> Response:
    """Add a person."""
    return await _write(request, scim, caller, scim.users.create_user, "CREATION", status=201)


@router.get("/Users/{user}")
def get_user(user: str, request: Request, scim: Service, caller: Account) -> Response:
    """One person."""
    return _answer(
        scim,
        caller,
        lambda: _show(
            scim.users.get_user(caller, user, _base(request)), "QUERY", asked=request.query_params
        ),
    )


@router.put("/Users/{user}")
async def replace_user(user: str, request: Request, scim: Service, caller: Account) -> Response:
    """Write a person anew."""
    return await _write(request, scim, caller, scim.users.replace_user, "REPLACEMENT", user)


@router.patch("/Users/{user}")
async def patch_user(user: str, request: Request, scim: Service, caller: Account) -> Response:
    """Apply operations to a person."""
    return await _write(request, scim, caller, scim.users.patch_user, "PATCH", user)


@router.delete("/Users/{user}", status_code=204)
def delete_user(user: str, scim: Service, caller: Account) -> Response:
    """Delete a person: its user is disabled, and its jobs go by the policy of leavers."""
    return _answer(scim, caller, lambda: _delete(scim.users.delete_user, caller, user))


@router.get("/Groups")
def list_groups(request: Request, scim: Service, caller: Account) -> Response:
    """Groups, by `filter`, `startIndex` and `count`."""
    return _answer(
        scim,
        caller,
        lambda: _list(scim.groups.list_groups(caller, request.query_params, _base(request))),
    )


@router.post("/Groups", status_code=201)
async def create_group(request: Request, scim: Service, caller: Account) -> Response:
    """Add a group."""
    return await _write(request, scim, caller, scim.groups.create_group, "CREATION", status=201)


@router.get("/Groups/{group}")
def get_group(group: str, request: Request, scim: Service, caller: Account) -> Response:
    """One group."""
    return _answer(
        scim,
        caller,
        lambda: _show(
            scim.groups.get_group(caller, group, _base(request)),
            "QUERY",
            asked=request.query_params,
        ),
    )


@router.put("/Groups/{group}")
async def replace_group(group: str, request: Request, scim: Service, caller: Account) -> Response:
    """Write a group anew."""
    return await _write(request, scim, caller, scim.groups.replace_group, "REPLACEMENT", group)


@router.patch("/Groups/{group}")
async def patch_group(group: str, request: Request, scim: Service, caller: Account) -> Response:
    """Apply operations to a group."""
    return await _write(request, scim, caller, scim.groups.patch_group, "PATCH", group)


@router.delete("/Groups/{group}", status_code=204)
def delete_group(group: str, scim: Service, caller: Account) -> Response:
    """Delete a group; its members lose the rights that it gave."""
    return _answer(scim, caller, lambda: _delete(scim.groups.delete_group, caller, group))


@router.post("/Users/.search")
async def search_users(request: Request, scim: Service, caller: Account) -> Response:
    """As GET /Users, with the query in the body."""
    return await _search(request, scim, caller, scim.users.list_users)


@router.post("/Groups/.search")
async def search_groups(request: Request, scim: Service, caller: Account) -> Response:
    """As GET /Groups, with the query in the body."""
    return await _search(request, scim, caller, scim.groups.list_groups)


@router.post("/.search")
def search_all(scim: Service, caller: Account) -> Response:
    """Not implemented: a search of persons and groups at once."""
    return _answer(scim, caller, _refuse_search)


@router.get("/{path:path}")
def refuse_path(path: str, scim: Service, caller: Account) -> Response:
    """Answer an unknown path in the words of RFC 7644."""
    return _answer(scim, caller, lambda: _find((), path))


async def _search(
    request: Request, scim: ScimService, caller: Principal, act: Callable[..., Any]
) -> Response:
    content = await request.body()
    base = _base(request)
    return await run_in_threadpool(
        _answer, scim, caller, lambda: _list(act(caller, _parse(content), base))
    )


def _refuse_search() -> Response:
    detail = "search below /Users or /Groups"
    raise load_scim().NotImplementedException(detail=detail)


async def _write(
    request: Request,
    scim: ScimService,
    caller: Principal,
    act: Callable[..., Any],
    kind: str,
    *named: str,
    status: int = 200,
) -> Response:
    """Read the body, and answer with the resource as it is then."""
    content = await request.body()
    base = _base(request)

    def run() -> Response:
        built = act(caller, *named, _parse(content), base)
        return _show(built, kind, status, asked=request.query_params)

    return await run_in_threadpool(_answer, scim, caller, run)


def _answer(scim: ScimService, caller: Principal, run: Callable[[], Response]) -> Response:
    """Run a request; turn the library's refusals into RFC 7644's errors.

    Raises:
        ScimUnavailable: The library lacks.
        NotScimAccount: The caller is no account of SCIM.
    """
    library = load_scim()
    scim.admit(caller)
    try:
        return run()
    except library.SCIMException as error:
        refusal = error.to_error()
    except ValidationError as error:
        refusal = library.Error.from_validation_errors(error)[0]
    status = int(refusal.status or 400)
    return ScimAnswer(refusal.model_dump(mode="json"), status_code=status)


def _parse(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise load_scim().InvalidSyntaxException(detail="the body is no JSON") from error
    if not isinstance(found, dict):
        raise load_scim().InvalidSyntaxException(detail="the body is no JSON object")
    return found


def _show(resource: Any, kind: str, status: int = 200, *, asked: Mapping[str, str]) -> Response:
    context = load_scim().Context[f"RESOURCE_{kind}_RESPONSE"]
    content = dump_resource(resource, context, parse_attributes(type(resource), asked))
    return ScimAnswer(content, status_code=status, headers={"Location": resource.meta.location})


def _list(found: tuple[Any, Any]) -> Response:
    answer, request = found
    context = load_scim().Context.RESOURCE_QUERY_RESPONSE
    return ScimAnswer(dump_resource(answer, context, request))


def _delete(act: Callable[[Principal, str], None], caller: Principal, named: str) -> Response:
    act(caller, named)
    return Response(status_code=204)


def _find(resources: Any, name: str) -> Any:
    for resource in resources:
        if name in (resource.get("id"), resource.get("name")):
            return resource
    raise load_scim().NotFoundException(detail=f"there is no {name[:80]!r}")


def _base(request: Request) -> str:
    """Return the address of the endpoint as the caller reached it."""
    return f"{request.url.scheme}://{request.url.netloc}/scim/v2"
