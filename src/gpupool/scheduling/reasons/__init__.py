"""Rejections: why a claim cannot be placed, as counts by reason and as messages for users."""
