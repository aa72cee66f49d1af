"""The parts of a Tenant's network as operators write them, each read and checked on its own. Pure.
`resources/tenant_network` puts them together."""
