"""`gpupool sso` and the parts of `login` and `user` for passwords and identity providers."""
