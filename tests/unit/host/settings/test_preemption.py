"""How hard a pool may preempt, as its server's environment says."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.host.settings.preemption import read_rules
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules


def test_without_a_word_the_scheduler_s_own_rules_hold() -> None:
    assert read_rules({"PATH": "/bin", "GPUPOOL_PREEMPT_AFTER": ""}) == DEFAULT_PREEMPTION_RULES


def test_each_limit_can_be_set_and_all_of_it_switched_off() -> None:
    asked = {
        "GPUPOOL_PREEMPT_AFTER": "0",
        "GPUPOOL_PREEMPT_GRACE": "5",
        "GPUPOOL_PREEMPT_PER_HOUR": "3",
    }
    assert read_rules(asked) == PreemptionRules(grace_s=5, per_hour=3, protected_s=0)
    assert read_rules({"GPUPOOL_PREEMPT": "off"}).enabled is False
    assert read_rules({"GPUPOOL_PREEMPT_FAIR": "off"}) == PreemptionRules(fair=False)


@pytest.mark.parametrize(
    "environ",
    [
        {"GPUPOOL_PREEMPT_AFTER": "5m"},
        {"GPUPOOL_PREEMPT": "perhaps"},
        {"GPUPOOL_PREEMPT_FAIR": "1"},
    ],
)
def test_what_makes_no_sense_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        read_rules(environ)
