#!/bin/sh
# Two tenants with the same addresses, a security group, a load balancer whose backend is killed, a port of this machine,
# and a gateway that fails over, with ordinary gpupool commands. The two machines of the gateway are namespaces with an
# agent each. Uses simulated cards; leaves nothing behind. Root alone. Needs:
# apt-get install --no-install-recommends ovn-central ovn-host openvswitch-switch nftables dnsmasq-base iproute2
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
# A short path: sockets of the engine have 107 bytes at most.
work=$(mktemp -d "${TMPDIR:-/tmp}/gpn-XXXXXX")
chmod 755 "$work"
GPUPOOL_STATE_DIR="$work/pool"
export PATH GPUPOOL_STATE_DIR
export GPUPOOL_LANG=en # some answers are read below
unset GPUPOOL_URL GPUPOOL_TOKEN || true
segment=      # the bridge between the machines
agents=       # pids of the agents of the other machines
machines="1 2"

finish() {
  status=$?
  trap - EXIT INT TERM PIPE
  for pid in $agents; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
  for number in $machines; do
    if [ -d "$work/machine-$number" ]; then remove_machine "$number" || status=1; fi
  done
  gpupool down --purge --yes >/dev/null 2>&1 || true
  if [ -n "$segment" ]; then ip link delete "$segment"; fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM
trap 'exit 141' PIPE # a pager that was left

say() { printf '\n# %s\n' "$*"; }
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
expect() { # TEXT COMMAND...: until the command prints the text, for a minute at most
  wanted=$1
  shift
  tries=0
  until printed=$("$@" 2>&1) && [ "$printed" = "$wanted" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ]; then echo "demo: '$printed' is not '$wanted'" >&2 && exit 1; fi
    sleep 0.5
  done
}
join_segment() { # a bridge and a prefix of which this machine has none; both are this demo's from then on
  for number in $(seq 200 219); do
    if [ -n "$(ip route show root "10.$number.0.0/16")" ]; then continue; fi
    if ip link add "gpd$number" type bridge 2>/dev/null; then
      segment=gpd$number
      prefix=10.$number.0
      ip address add "$prefix.1/24" dev "$segment"
      ip link set "$segment" up
      return
    fi
  done
  echo "demo: 10.200.0.0/16 to 10.219.0.0/16 are all taken" >&2
  exit 1
}
add_machine() { # NUMBER TOKEN: a namespace with a cable into the segment, and an agent in it
  space=${segment}n$1
  mkdir -m 755 "machine-$1"
  ip netns add "$space"
  ip -n "$space" link set lo up
  ip link add "${space}e" type veth peer name eth0 netns "$space"
  ip link set "${space}e" master "$segment" up
  ip -n "$space" address add "$prefix.$(($1 + 1))/24" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" route add default via "$prefix.1"
  printf '{"format": 1, "machines": [{"name": "machine-%s", "cards": [{"model": "L40S", "count": 1}]}]}' \
    "$1" >"machine-$1/cards.json"
  (
    unset GPUPOOL_STATE_DIR GPUPOOL_TUNNEL_ADDRESS # those of the pool's own machine
    export GPUPOOL_TOKEN="$2"
    exec nsenter --net="/run/netns/$space" python3 -m gpupool.agent --url "http://$prefix.1:$port" --pool-id demo \
      --name "machine-$1" --work-dir "$work/machine-$1" --sim "$work/machine-$1/cards.json" >"machine-$1/log" 2>&1
  ) &
  agents="$agents $!"
}
remove_machine() { # NUMBER: its part of the engine, after its agent
  nsenter --net="/run/netns/${segment}n$1" python3 - "$work/machine-$1" <<'END'
import pathlib, sys
from gpupool.agent.cleanup import end_every_job
from gpupool.base.settings import PoolPaths
end_every_job(PoolPaths(pathlib.Path(sys.argv[1])), "demo")
END
  ip link delete "${segment}n$1e"
  ip netns delete "${segment}n$1"
}
start_pool() {
  gpupool up -d --sim 2xL40S --listen "$prefix.1:$port" --insecure-http >/dev/null
}
count_ready() { # machines whose engine is ready
  gpupool network status -o json | python3 -c '
import json, sys
print(sum(machine["state"] == "ready" for machine in json.load(sys.stdin)["machines"]))'
}
show_states() { # the two machines of the gateways, the active one first
  gpupool network gateway-show -o json | python3 -c '
import json, sys
print(*sorted(machine["state"] + " " + machine["node"] for machine in json.load(sys.stdin)["machines"]))'
}
show_roles() { show_states | cut -d " " -f 1,3; }
cd "$work"
cat >serve.py <<'END'
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("", 8000), Answer).serve_forever()
END
cat >ask.py <<'END'
import sys, urllib.request
print(*sorted({urllib.request.urlopen(sys.argv[1], timeout=2).read().decode() for _ in range(int(sys.argv[2]))}))
END
cat >outage.py <<'END'
# Asks all the time, runs a command meanwhile, and prints for how long no answer came.
import subprocess, sys, time, urllib.request
def ask():
    try:
        urllib.request.urlopen(sys.argv[1], timeout=0.2).read()
    except OSError:
        return False
    return True
longest, in_a_row, last = 0.0, 0, time.monotonic()
deadline = last + 30
for is_after in (False, True):
    if is_after:
        subprocess.run(sys.argv[2:], check=True)
        in_a_row, changed = 0, time.monotonic()
    # What is cut off may answer until it is missed, so for two seconds at least.
    while in_a_row < 20 or (is_after and time.monotonic() < changed + 2):
        if time.monotonic() > deadline:
            sys.exit("demo: the answers do not come back")
        in_a_row = in_a_row + 1 if ask() else 0
        if in_a_row:
            longest = max(longest, time.monotonic() - last)
            last = time.monotonic()
print(f"no answer for {longest:.2f} s")
END
chmod 644 ./*.py
ask_as() { # TENANT URL TIMES
  gpupool run -q --tenant "$1" --network lab --gpu 0.1 -- python3 ask.py "$2" "$3"
}

port=17411
join_segment
GPUPOOL_TUNNEL_ADDRESS=$prefix.1
export GPUPOOL_TUNNEL_ADDRESS
start_pool
say "an admin starts the engine, and opens ports of this machine"
show network enable --forward-ports 30000-30099
say "two tenants, the same name, the same addresses"
for tenant in red blue; do
  gpupool tenant create "$tenant" >/dev/null
  show network create lab --tenant "$tenant" --cidr 10.0.0.0/24
  show submit --tenant "$tenant" --network lab --gpu 0.1 --name "web-$tenant" -- python3 serve.py "$tenant"
done
show network list
for tenant in red blue; do
  expect "$tenant" ask_as "$tenant" http://10.0.0.2:8000 1
  echo "tenant $tenant asks http://10.0.0.2:8000 and gets: $tenant"
done

say "a load balancer; one of its two jobs is killed"
show network lb-create lab api --tenant red --port 80 --target-port 8000 --backend one --backend two
for name in one two; do
  show submit --tenant red --network lab --gpu 0.1 --name "$name" -- python3 serve.py "$name"
done
expect "one two" ask_as red http://api 40
echo "40 requests to http://api are answered by: one two"
show stop one
expect "two" ask_as red http://api 40
echo "40 requests to http://api are answered by: two"

say "a security group takes its members alone"
show network group-create lab closed --tenant red
show submit --tenant red --network lab --security-group closed --gpu 0.1 --name vault -- python3 serve.py vault
until gpupool show vault | grep -q running; do sleep 0.2; done
show network why web-red vault --port 8000
if ask_as red http://vault:8000 1 >/dev/null 2>&1; then echo "demo: this should not connect" >&2 && exit 1; fi

say "a gateway, and a port of this machine that leads to the load balancer"
show network gateway-create lab --tenant red
show network forward-create lab api --tenant red --target-port 80
address=$(hostname -I | cut -d' ' -f1)
expect "two" python3 ask.py "http://$address:30000" 1
echo "this machine asks http://$address:30000 and gets: two"

say "the server is killed; addresses and traffic stay"
kill -9 "$(gpupool doctor -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["server"]["pid"])')"
expect "two" python3 ask.py "http://$address:30000" 1
start_pool
expect "two" ask_as red http://api 40
echo "40 requests to http://api are answered by: two"

say "two more machines join; the gateways move to them, and each can take over from the other"
gpupool user add agents --role agent >/dev/null
token=$(gpupool token create --user agents 2>/dev/null)
for number in $machines; do add_machine "$number" "$token"; done
expect 3 count_ready
show network status
show network gateway-pair machine-1 machine-2 --address "$prefix.10" --upstream "$prefix.1"
outside=http://$prefix.10:30000
expect "two" python3 ask.py "$outside" 1
echo "this machine asks $outside and gets: two"
show network gateway-drill lab --tenant red

expect "active standby" show_roles
active=$(show_states | cut -d " " -f 2) # the first one, unless it was slow to answer when the pair began
standby=$(show_states | cut -d " " -f 4)
cable=${segment}n${active#machine-}e
say "the machine with the gateways, $active, loses its cable; the other one takes over"
python3 outage.py "$outside" ip link set "$cable" down
expect "two" python3 ask.py "$outside" 1
echo "this machine asks $outside and gets: two"
ip link set "$cable" up
expect "active $standby standby $active" show_states
show network gateway-show
show network show lab --tenant red
