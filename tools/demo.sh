#!/bin/sh
# A pool in under a minute, with nothing but ordinary gpupool commands, each shown before it runs.
# Uses this machine's cards where NVML finds some, simulated ones elsewhere; leaves nothing behind.
# It ends with a link to the web console of the pool, and waits there for Enter. `demo.sh console` is that part alone.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
work=$(mktemp -d)
image=
GPUPOOL_STATE_DIR="$work/pool"
if [ -f console/gpupool_console/static/index.html ]; then
  PYTHONPATH="$PWD/console${PYTHONPATH:+:$PYTHONPATH}"
  export PYTHONPATH
fi
export PATH GPUPOOL_STATE_DIR
unset GPUPOOL_URL GPUPOOL_TOKEN || true

finish() {
  status=$?
  trap - EXIT INT TERM PIPE
  gpupool down --purge --yes >/dev/null 2>&1 || true
  [ -z "$image" ] || gpupool image remove "$image" >/dev/null 2>&1 || true
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM
trap 'exit 141' PIPE # a pager that was left

say() { printf '\n\033[1m# %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
show() { # the command as one would type it, then what it says
  printf '$ gpupool'
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./:=,+-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
  gpupool "$@"
}
refused() { # a command that must be refused
  if show "$@"; then echo "demo: this should have been refused" >&2 && exit 1; fi
}
pid() { gpupool doctor -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["server"]["pid"])'; }
start_pool() {
  say "A pool on this machine"
  if gpupool up -d >"$work/up" 2>&1; then
    echo '$ gpupool up -d' && cat "$work/up"
    show adopt 0
  else
    show up -d --sim 2xL40S
  fi
}
open_console() { # a link for the browser of a person, who then has the pool until Enter is pressed
  say "The web console of this pool; its button Notebook starts JupyterLab in a quarter of a card"
  if ! python3 -c 'import gpupool_console' 2>/dev/null; then
    echo "(the console is not built here: make console)"
    return
  fi
  command -v jupyter-lab >/dev/null || echo "(for notebooks: pip install jupyterlab, before the demo)"
  if [ "$only" != console ] && ! [ -t 0 ]; then
    echo "(in a terminal the demo ends with a link to it: gpupool console)"
    return
  fi
  show console
  echo "Press Enter to end the pool and everything in it."
  read -r _ || true
}

only=${1:-}
if [ "$only" = console ]; then
  start_pool
  open_console
  exit
fi
work_loop='while :; do echo "step $(date +%T)"; sleep 1; done'

start_pool

say "Three tenants share one card"
for tenant in nlp vision speech; do
  echo "\$ gpupool tenant create $tenant"
  gpupool tenant create "$tenant" >/dev/null
done
show submit --tenant nlp --gpu 0.5 --memory 4GiB --name train -- sh -c "$work_loop"
show submit --tenant vision --gpu 0.3 --memory 4GiB --name detect -- sh -c "$work_loop"
show submit --tenant speech --gpu 0.2 --memory 2GiB --sharing burst --name transcribe -- sh -c "$work_loop"
show ps
show gpus
show show train

say "An unmodified program in a piece of a card, attached to this terminal"
show run -v --gpu 0.1 --memory 1GiB -- python3 -c 'import os; print("my share is described in", os.environ["GPUPOOL_SHARE"])'

say "The share holds: a CUDA program gets its memory and no more; a running share gets another size"
show run -v --gpu 0.1 --memory 1GiB -- gpupool burn --over-allocate
show resize detect --memory 6GiB

say "A container in a piece of a card: the same share, in an image made of this machine's files"
name="localhost/gpupool-demo:$$"
if gpupool image list >/dev/null 2>"$work/container" &&
  python3 tools/make_demo_image.py "$work/demo.tar" "$name" 2>"$work/container"; then
  image=$name
  show image load "$work/demo.tar"
  if show run -v --gpu 0.1 --memory 1GiB --image "$image" -- card; then
    :
  elif [ $? -eq 125 ]; then
    echo "(no container here: Podman could not start it)"
  else
    exit 1
  fi
else
  echo "(no container here: $(tr '\n' ' ' <"$work/container"))"
fi

say "More than any card has: refused, with the numbers and the nearest fit"
refused run --gpu 0.9 --memory 200GiB -- sleep 60

say "More than is free now: it waits, and says why"
show submit --gpu 1 --count 2 --name whole-cards -- sleep 60 || true
show explain whole-cards || true

say "The server is killed; the jobs do not notice"
server=$(pid)
echo "\$ kill -9 $server"
kill -9 "$server"
refused ps
show up -d
show ps

say "The promises of a share, tried with real jobs on a card that is free (--quick; without it a minute)"
gpupool stop whole-cards --grace 0s >/dev/null 2>&1 || true
show verify --quick --out "$work/verify" || echo "(a busy machine takes time from everybody: the report says how busy)"

say "The books close, to the second and across the crash"
show report

open_console
