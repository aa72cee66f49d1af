"""Ports of jobs that are published, for the users and tenant-admins of the jobs."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.stop import check_ownership
from gpupool.allocations.store.tables import allocations
from gpupool.allocations.submission.network_join import count_network_jobs
from gpupool.allocations.views import list as job_lookup
from gpupool.model.allocation import AllocationState
from gpupool.model.tenant import Principal
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.exposing.exposures import (
    create_exposure,
    delete_exposure,
    describe_exposures,
)
from gpupool.store.database import Store
from gpupool.wire.network.load_balancers import ExposureIn, ExposureOut


class ExposureService:
    """Exposures of jobs. Thread-safe."""

    def __init__(self, store: Store, states: ProxyStates) -> None:
        self._store = store
        self._states = states

    def list_exposures(self, named: str, principal: Principal) -> list[ExposureOut]:
        """List the published ports of a job. Raises NotFound."""
        with self._store.read() as connection:
            job = job_lookup.find_job(connection, principal, named)
            return describe_exposures(connection, self._states, job.public_id)

    def expose(self, named: str, body: ExposureIn, principal: Principal) -> ExposureOut:
        """Publish a port of a running job. Idempotent.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job does not run, or is in no network.
        """
        with self._store.write() as write:
            job = job_lookup.find_job(write.connection, principal, named)
            check_ownership([job], principal, "expose")
            running = sa.select(allocations.c.id).where(
                allocations.c.job_id == job.id, allocations.c.state != AllocationState.RELEASED
            )
            allocation = write.execute(running).scalar_one_or_none()
            out = create_exposure(
                write,
                self._states,
                job.public_id,
                allocation,
                body,
                count_jobs=count_network_jobs,
            )
            write.answer(200, out.model_dump(mode="json"))
        return out

    def unexpose(self, named: str, port: str, principal: Principal) -> None:
        """Publish a port of a job no more. Raises as `expose`, and where it is not published."""
        with self._store.write() as write:
            job = job_lookup.find_job(write.connection, principal, named)
            check_ownership([job], principal, "unexpose")
            delete_exposure(write, job.public_id, port)
            write.answer(204, None)
