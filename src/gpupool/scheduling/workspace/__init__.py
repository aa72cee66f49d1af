"""The working state of cycles: planning state, undoable changes, gang placement, sleeping classes."""
