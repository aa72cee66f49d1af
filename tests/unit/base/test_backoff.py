"""The pauses of a retry loop."""

from gpupool.base.backoff import LAST_PAUSE_SECONDS, Backoff


def test_a_backoff_doubles_its_pause_until_the_last_one() -> None:
    backoff = Backoff(lambda: 0.0, first_seconds=0.1, last_seconds=0.5)
    assert [backoff.pause() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]


def test_a_backoff_begins_again_after_a_success() -> None:
    backoff = Backoff(lambda: 0.0, first_seconds=0.1)
    backoff.pause()
    backoff.reset()
    assert backoff.pause() == 0.1


def test_the_random_part_shortens_a_pause_by_at_most_one_half() -> None:
    assert Backoff(lambda: 1.0, first_seconds=3.0).pause() == 1.5


def test_a_backoff_ends_at_the_usual_last_pause() -> None:
    backoff = Backoff(lambda: 0.0)
    pauses = [backoff.pause() for _ in range(20)]
    assert max(pauses) == LAST_PAUSE_SECONDS
