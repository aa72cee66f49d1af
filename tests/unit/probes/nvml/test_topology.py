"""How the cards of a host are joined, as the driver lists it."""

from typing import Any


def test_links_between_two_cards_are_counted_once(pair: dict[str, Any]) -> None:
    (link,) = pair["links"]
    assert (link["a"], link["b"]) == ("GPU-00000000-aaaa", "GPU-00000001-aaaa")
    assert (link["kind"], link["count"]) == ("nvlink", 4)
    assert pair["distances"] == [[0, 1, 6], [1, 0, 6], [6, 6, 0]]


def test_behind_a_switch_every_pair_is_equally_near_although_the_sockets_differ(
    switch: dict[str, Any],
) -> None:
    distances = switch["distances"]
    assert all(distances[i][j] == (0 if i == j else 2) for i in range(4) for j in range(4))
    assert switch["domains"]["numa"] == [
        ["GPU-00000000-bbbb", "GPU-00000001-bbbb"],
        ["GPU-00000002-bbbb", "GPU-00000003-bbbb"],
    ]
