"""Charges: what was held in each hour, at which price. From the books, in integers."""
