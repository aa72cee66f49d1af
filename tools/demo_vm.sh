#!/bin/sh
# A virtual machine as a job of a pool, with nothing but ordinary gpupool commands. Its guest is one boot sector that
# prints a line. Uses simulated cards; leaves nothing behind. Needs: apt-get install qemu-system-x86 qemu-utils
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
work=$(mktemp -d)
GPUPOOL_STATE_DIR="$work/pool"
export PATH GPUPOOL_STATE_DIR
unset GPUPOOL_URL GPUPOOL_TOKEN || true

finish() {
  status=$?
  trap - EXIT INT TERM PIPE
  gpupool down --purge --yes >/dev/null 2>&1 || true
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM
trap 'exit 141' PIPE # a pager that was left

say() { printf '\n# %s\n' "$*"; }
show() { # the command as one would type it, then what it says
  printf '$ gpupool %s\n' "$*"
  gpupool "$@"
}
await_guest() { # until the guest has printed its line
  tries=0
  until gpupool logs dev 2>/dev/null | grep -q 'guest is up'; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then echo "demo: the guest did not start" >&2 && exit 1; fi
    sleep 0.1
  done
}

python3 - "$work/tiny.raw" <<'END'
import sys
code = bytes.fromhex("31c08ed8be157cbaf803ac84c07403eeebf8f4ebfd")
sector = (code + b"guest is up\r\n\0").ljust(510, b"\0") + b"\x55\xaa"
open(sys.argv[1], "wb").write(sector.ljust(1 << 20, b"\0"))
END

show up -d --sim 2xH200
say "an image is stored once, and never written to again"
show vm image import "$work/tiny.raw" --name tiny
say "a VM holds a whole card; a share is refused"
if show vm run --gpu 0.3 --image tiny; then echo "demo: this should have been refused" >&2 && exit 1; fi
show vm run --gpu 1 --image tiny --ram 64MiB --cpus 1 --name dev
await_guest
show vm list
say "the server is killed; the VM runs on, and the next server takes it back"
kill -9 "$(gpupool doctor -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["server"]["pid"])')"
show up -d --sim 2xH200
show vm list
say "this guest knows no power button: it is ended after the grace period"
show vm stop dev --grace 1s
show vm delete dev --yes
show report --by job
