"""Advice on shares in the SDK; `advice.Rightsizing` has it all."""
