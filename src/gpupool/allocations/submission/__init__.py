"""Submissions: validated, limited, stored, large gangs in parts."""
