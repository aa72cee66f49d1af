"""The command line in Chinese.

The sources make English text; this package finds the Chinese of a finished text. `texts/*.json` map
an English template with holes (`{0} waits: {1}`) to its Chinese; `translator` finds the template of a
text and carries the holes over, `stream` does so for what is written to stdout and stderr, `layout`
breaks lines by the width of their signs. A text without Chinese stays English as a whole: a sentence
is never in two languages. No other package imports this one; `terminal.language` is its door.
"""
