"""Money: price lists, charges, budgets, month seals and documents, from the books of `metering`.

Amounts are integers: millionths of the currency (micro-units), and prices are micro-units per card
and hour. See docs/decisions/0104-money-from-the-ledger.md.
"""
