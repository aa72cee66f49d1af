"""Commands about the traffic of networks: where it goes, what is logged of it, and its copies."""
