"""Price lists: what a card costs an hour, from when on, by model, mechanism, sharing and hour."""
