"""Kills at every row of the failure table, and whatever died: no card too much, no pod forgotten, none
stuck. Two at each row in the ordinary run, five more at night."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_faults.campaign import Campaign
from tests.support.kube_faults.rows import ROWS

KILLS = [2, pytest.param(5, marks=pytest.mark.nightly)]
SEED = 20261122


@pytest.fixture(scope="module")
def campaign(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with Campaign(cluster, tmp_path_factory.mktemp("faults"), SEED) as one:
        yield one


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("row", ROWS)
def test_after_a_kill_everything_is_true_again_and_everybody_gets_cards(
    campaign: Campaign, row: str, kills: int
) -> None:
    before = campaign.counts.rounds[row]
    for _ in range(kills):
        campaign.round(row)
    campaign.drain()
    assert campaign.counts.rounds[row] == before + kills
