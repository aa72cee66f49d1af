"""Results of simulations as tables and HTML pages."""
