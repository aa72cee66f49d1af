"""Commands for the pool: up, down, doctor, backup, cards, reservations and events."""
