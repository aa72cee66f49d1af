"""Pictures and pages as text: SVG inside one HTML file; no script, no network, no library. Knows no cards, no jobs."""
