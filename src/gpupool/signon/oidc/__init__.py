"""OpenID Connect: metadata, keys, ID tokens, the code flow, the device flow, logout."""
