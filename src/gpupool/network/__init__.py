"""Networks of tenants: virtual private clouds with addresses of the tenants' own choice.

The pool's database is the truth. `northbound` compiles it to rows of an OVN northbound database,
and `reconciler` keeps the two equal; `ovn` alone speaks OVSDB.
"""
