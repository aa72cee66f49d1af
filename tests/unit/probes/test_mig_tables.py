"""The MIG profiles of simulated cards."""

from gpupool.probes.simulated import parse_sim


def test_cards_that_can_be_cut_say_how() -> None:
    assert {p.name for p in parse_sim("8xH200")[0].devices[0].profiles} >= {
        "1g.18gb",
        "3g.71gb",
        "7g.141gb",
    }
    assert parse_sim("4xL40S")[0].devices[0].profiles == ()
