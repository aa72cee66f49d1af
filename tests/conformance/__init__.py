"""Cases of other schedulers, as data in our own terms, and what runs them on the engine
(docs/concepts/conformance)."""
