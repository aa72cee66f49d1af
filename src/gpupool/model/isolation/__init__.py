"""Facts by which a claim finds a mechanism: what it demands, what a card offers, what a node is."""
