"""Proxies of HTTP load balancers on this machine: HAProxy started, fed and asked how its servers are."""
