"""The OVN engine: the only code that speaks OVSDB, and the start of OVN's daemons.

Needs the extra `network` (Open vSwitch's Python library) where a database is opened.
"""
