"""Security groups: which packets reach the jobs of a network. Rules and their compiler are pure;
the service writes them."""
