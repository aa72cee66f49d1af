"""Shapes of money: price lists, budgets, seals and statements. Amounts are micro-units."""
