"""The files of the web console, as `make console` builds them into `static/`.

The package has no code of its own: `gpupool` serves the folder, and answers without it say that
the console is not installed. Its sources are TypeScript, one folder up.
"""

__version__ = "0.2.0"
