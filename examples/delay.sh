#!/bin/sh
# A service behind a proxy that adds latency: set at the start, by a schedule, and while it runs.
set -eu

plimsoll metadir scim-server --listen 127.0.0.1:0 --database scim.db > service &
service=$!
proxy=
trap 'kill $service $proxy 2> /dev/null || true' EXIT

# Waits for the first line of a file.
first_line() {
    tries=0
    until [ -s "$1" ]; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || exit 1
        sleep 0.1
    done
    head -n 1 "$1"
}
port=$(first_line service | sed 's/.*:\([0-9]*\).*/\1/')

# A round trip takes 40 ms longer. After 2 s, the replies come at 1 MB/s instead.
plimsoll delay --listen 127.0.0.1:0 --to "127.0.0.1:$port" --latency 20ms --jitter 5ms --seed 7 \
    --at 2s latency=off jitter=off down.bandwidth=1MB/s \
    --control control/socket --exchanges exchanges.csv > proxy &
proxy=$!
address=$(first_line proxy | sed 's/listening on \([^,]*\),.*/\1/')
plimsoll http "http://$address/scim/v2/Users" --connections 2 --warm-up 1s --duration 2s --quiet
plimsoll delay show --control control/socket

# A slower way to the service, and losses on the way back.
plimsoll delay set --control control/socket none up.latency=50ms down.loss=1%
plimsoll delay show --control control/socket --restart --json

# The proxy prints what it did.
kill $proxy
wait $proxy
cat proxy
test -s exchanges.csv
