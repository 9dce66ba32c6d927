#!/bin/sh
# A metadirectory that runs by itself: after a change of the staff file, and at least every hour.
set -eu

plimsoll metadir init --target ldif --people 200
cat >> metadirectory.toml << END

[serve]
listen = "127.0.0.1:0"          # a free port; use a fixed one, such as 9464, for Prometheus

[[schedule]]
run = "full"
every = "1 h"
on_change = ["staff"]
quiet = "1 s"
END
plimsoll metadir check

plimsoll metadir serve 2> log &
serve=$!
trap 'kill $serve 2> /dev/null || true' EXIT

# Waits until the log has a line this many times.
wait_for() {
    tries=0
    until [ "$(grep -c "$1" log)" -ge "$2" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 600 ]; then
            cat log
            exit 1
        fi
        sleep 0.1
    done
}
wait_for 'full: completed' 1

# The changes of a day: the run begins by itself.
plimsoll generate people --count 200 --attributes 8 --format csv --day 1 --output staff.csv
wait_for 'full: begins, because staff changed' 1
wait_for 'full: completed' 2
plimsoll metadir status

address=$(sed -n 's|.*health: http://\(.*\)/health$|\1|p' log)
curl --silent --show-error --fail "http://$address/health"
curl --silent --show-error --fail "http://$address/metrics" | grep plimsoll_metadir_runs_total

# It ends after the next commit, with exit code 0.
kill $serve
wait $serve
trap - EXIT
cat log
