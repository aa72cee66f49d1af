"""An OVN that is there already and that the pool joins: its databases have other users too, and the
pool changes none but its own rows.
"""
