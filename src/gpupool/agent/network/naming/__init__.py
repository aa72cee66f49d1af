"""Resolvers of networks on this machine: a dnsmasq for each network with a job here."""
