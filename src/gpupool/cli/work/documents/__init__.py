"""Files of other systems that commands read: manifests, job scripts, and facts about nodes.

Knows lines and files, so that an error names the place; what the words mean is `gpupool.dialects`.
"""
