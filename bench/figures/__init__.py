"""One module per bench: `NAME`, and `run(out: Path) -> list[Row]`. Being here registers it."""
