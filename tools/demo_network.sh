#!/bin/sh
# Two tenants with the same addresses, a security group, a load balancer whose backend is killed, and a port of this
# machine, with nothing but ordinary gpupool commands. Uses simulated cards; leaves nothing behind. Root alone. Needs:
# apt-get install --no-install-recommends ovn-central ovn-host openvswitch-switch nftables dnsmasq-base
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
# A short path: sockets of the engine have 107 bytes at most.
work=$(mktemp -d "${TMPDIR:-/tmp}/gpn-XXXXXX")
chmod 755 "$work"
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
chmod 644 ./*.py
ask_as() { # TENANT URL TIMES
  gpupool run -q --tenant "$1" --network lab --gpu 0.1 -- python3 ask.py "$2" "$3"
}

gpupool up -d --sim 2xL40S >/dev/null
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
gpupool up -d --sim 2xL40S >/dev/null
expect "two" ask_as red http://api 40
show network show lab --tenant red
