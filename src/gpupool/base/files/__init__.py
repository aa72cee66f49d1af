"""Files and directories with content that others chose: removed, and read, as they are."""
