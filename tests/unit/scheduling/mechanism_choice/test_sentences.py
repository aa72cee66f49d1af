"""Words of the choice."""

from __future__ import annotations

from gpupool.model.device import CardMode, ModeNeed, ModeOffer
from gpupool.model.isolation.host_kind import HostKind
from gpupool.scheduling.mechanism_choice.sentences import format_hosts, format_switch


def test_a_switch_is_told_with_what_it_needs_and_how_long_it_takes() -> None:
    switch = ModeOffer(CardMode.MIG, ModeNeed.RESET, 30.0)
    assert format_switch(switch) == "a switch to mig (resets the card, 30 s)"
    unknown = ModeOffer(CardMode.VGPU, ModeNeed.RELOAD)
    assert format_switch(unknown) == "a switch to vgpu (reloads the driver, of unknown length)"


def test_hosts_are_listed_in_words() -> None:
    assert format_hosts((HostKind.PROCESS, HostKind.VM)) == "processes and VMs"
    assert format_hosts(()) == "nothing"
