"""Shapes of templates: `documents` has what admins write, `uses` what callers ask and get."""
