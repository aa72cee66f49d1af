from gpupool.scheduling.filtering.capacity_columns import (
    build_empty_columns,
)
from gpupool.scheduling.filtering.seat_count import (
    count_claims_by_node,
)
from tests.support.scheduling_builders import cards, whole
from tests.support.seat_builders import fitted
from tests.support.time_builders import used_by


def test_an_empty_pool_is_counted_as_if_nothing_ran() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0", "node-1/1"))
    fit, free, columns = fitted(pool, whole())
    assert (
        count_claims_by_node(fit, free, columns).sum(),
        count_claims_by_node(fit, free, build_empty_columns(free)).sum(),
    ) == (0, 2)
