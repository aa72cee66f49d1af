"""Checks at submission: can a claim, a gang or a reservation ever be placed, and which nearest
shape can.
"""
