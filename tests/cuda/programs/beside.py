"""`beside.py COMMAND… -- OTHER…`: runs OTHER while COMMAND, which says a JSON line and waits, holds
what it holds.

Prints one JSON object: what COMMAND said, what OTHER printed and its exit status. Standard library
only.
"""

import json
import subprocess
import sys

end = sys.argv.index("--")
holder = subprocess.Popen(sys.argv[1:end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
said = json.loads(holder.stdout.readline())
other = subprocess.run(
    sys.argv[end + 1 :], stdin=subprocess.DEVNULL, capture_output=True, text=True
)
holder.communicate(timeout=60)
print(
    json.dumps(
        {"said": said, "printed": other.stdout, "status": other.returncode, "errors": other.stderr}
    )
)
