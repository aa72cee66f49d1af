"""Numbers of mirrors in tunnels: none is a network's."""

from __future__ import annotations

from gpupool.base.ids import new_id
from gpupool.network.mirroring.tunnel_keys import find_tunnel_key


def test_numbers_are_those_that_no_network_gets_and_stay() -> None:
    for _ in range(200):
        mirror = new_id("m")
        number = find_tunnel_key(mirror)
        # ovn-util.h: networks get 1 to 0xFF0000, and 24 bits are all that Geneve has.
        assert 0xFF0000 < number < 2**24
        assert find_tunnel_key(mirror) == number
