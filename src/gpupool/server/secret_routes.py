"""Routes of the key of stored secrets, below /api/v1."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store
from gpupool.store.secrets.vault import VaultState
from gpupool.tenancy.access import require_caller
from gpupool.wire.secrets.keys import KeyProblem, RotationIn, SecretsOut

router = Router(tags=["pool"])
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]


@router.get("/secrets")
def get_secrets(request: Request, _caller: PoolManager) -> SecretsOut:
    """The key that encrypts stored secrets, and whether it is there; never a secret or a key."""
    store: Store = request.app.state.store
    with store.read() as connection:
        return describe_secrets(store.secrets.describe(connection))


@router.post("/secrets/rotate")
def rotate_secrets(request: Request, _caller: PoolManager, body: RotationIn) -> SecretsOut:
    """Encrypt every stored secret by a new key."""
    store: Store = request.app.state.store
    done = store.secrets.rotate(store, drop_old=body.drop_old, give_up_lost=body.lost)
    return describe_secrets(done)


def describe_secrets(state: VaultState) -> SecretsOut:
    """Describe the state of a vault."""
    problem = state.problem
    return SecretsOut(
        key_id=state.key_id,
        key_file=state.place,
        secrets=state.values,
        older_keys=state.other_keys,
        problem=None
        if problem is None
        else KeyProblem(code=problem.code, text=problem.message, next=problem.hint),
    )
