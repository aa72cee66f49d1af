"""Energy of cards: measured from their samples, divided among the shares that held them, summed up
by owner, and turned into CO2e by the dated factors of the site. docs/decisions/0117-energy.md."""
