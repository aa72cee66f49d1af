"""What the SDK says of the pool as a whole: cards, map, overview, previews of submissions, and the
doors to networks, messages, logins, advice and idle jobs."""

from __future__ import annotations

from gpupool.client.messages import path_segment
from gpupool.client.paging import iterate_items
from gpupool.client.transport import Api
from gpupool.wire.answers import read_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from gpupool.client.idleness.jobs import Idleness
    from gpupool.client.networks.pool_networks import Networks
    from gpupool.client.notifications.subscriptions import Notifications
    from gpupool.client.rightsizing.advice import Rightsizing
    from gpupool.client.serving.pool_services import Services
    from gpupool.client.signon.people import SignOn
    from gpupool.wire.fleet import DeviceOut
    from gpupool.wire.people import WhoamiOut
    from gpupool.wire.views.job_pages import JobUseOut
    from gpupool.wire.views.overviews import OverviewOut
    from gpupool.wire.views.pool_map import CardShareOut, MapOut
    from gpupool.wire.views.previews import PreviewOut


class PoolViews:
    """Questions about the whole pool; `Pool` answers them."""

    api: Api

    @property
    def networks(self) -> Networks:
        """The networks of tenants, and what belongs to them."""
        from gpupool.client.networks.pool_networks import Networks

        return Networks(self.api)

    @property
    def notifications(self) -> Notifications:
        """Messages by mail and chat, and what became of them."""
        from gpupool.client.notifications.subscriptions import Notifications

        return Notifications(self.api)

    @property
    def idle(self) -> Idleness:
        """Idle jobs, keeps, and the policies about them."""
        from gpupool.client.idleness.jobs import Idleness

        return Idleness(self.api)

    @property
    def sign_on(self) -> SignOn:
        """Identity providers, rules, passwords, sessions and leavers."""
        from gpupool.client.signon.people import SignOn

        return SignOn(self.api)

    @property
    def rightsizing(self) -> Rightsizing:
        """Advice on shares, and the policies that follow it."""
        from gpupool.client.rightsizing.advice import Rightsizing

        return Rightsizing(self.api)

    def whoami(self) -> WhoamiOut:
        """Return the caller as the pool authenticated it, with its tenant's quota."""
        from gpupool.wire.people import WhoamiOut

        return read_answer(WhoamiOut, self.api.request("GET", "whoami"))

    def overview(self) -> OverviewOut:
        """The pool at one look."""
        from gpupool.wire.views.overviews import OverviewOut

        return read_answer(OverviewOut, self.api.request("GET", "overview"))

    def gpus(self, **filters: Any) -> Iterator[DeviceOut]:
        """Cards. `filters` are model, node, state, health."""
        from gpupool.wire.fleet import DeviceOut

        for item in iterate_items(self.api, "devices", filters):
            yield read_answer(DeviceOut, item)

    def job_use(self, job: str) -> JobUseOut:
        """What a running job used of its share since it started."""
        from gpupool.wire.views.job_pages import JobUseOut

        return read_answer(JobUseOut, self.api.request("GET", f"jobs/{path_segment(job)}/use"))

    def map(self) -> MapOut:
        """Every card and every share, in columns."""
        from gpupool.wire.views.pool_map import MapOut

        return read_answer(MapOut, self.api.request("GET", "map"))

    def card_shares(self, card: str) -> list[CardShareOut]:
        """The shares of one card, named by uuid or `node:index`."""
        from gpupool.wire.views.pool_map import CardShareOut

        shares = self.api.request("GET", f"devices/{path_segment(card)}/shares")
        return [read_answer(CardShareOut, share) for share in shares]

    @property
    def services(self) -> Services:
        """Replicas of jobs behind one address."""
        from gpupool.client.serving.pool_services import Services

        return Services(self.api)

    def preview_body(self, body: Mapping[str, Any]) -> PreviewOut:
        """What would become of a body of POST /jobs. Submits nothing."""
        from gpupool.wire.views.previews import PreviewOut

        return read_answer(PreviewOut, self.api.request("POST", "jobs/preview", dict(body)))
