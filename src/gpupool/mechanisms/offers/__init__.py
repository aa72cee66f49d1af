"""What the mechanisms of this node offer for a card, asked without an allocation.

`card_offers` asks the registry, `summaries` holds what a mechanism says of itself, `host_facts`
reads what the node has. The agent publishes the offers; the server's planner reads them as data.
"""
