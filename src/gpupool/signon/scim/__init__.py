"""SCIM 2.0 (RFC 7643, RFC 7644): an identity provider tells the pool of its persons and groups.

A service account stands for the provider of the same name and belongs to one tenant, which bounds
what it can see and change. Groups go through the rules of sign-on. Decision 0118.
"""
