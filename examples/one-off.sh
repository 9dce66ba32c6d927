#!/bin/sh
# Loads without an experiment file, and the commands that read their records afterwards.
set -eu

# Two measurements of a disk, and their comparison.
plimsoll disk plimsoll-disk.bin --size 16MiB --outstanding 1 --warm-up 0s --duration 1s --run-dir one --quiet
plimsoll disk plimsoll-disk.bin --size 16MiB --outstanding 8 --warm-up 0s --duration 1s --run-dir eight --quiet
plimsoll compare one eight
plimsoll show eight --verbose
plimsoll explain eight
plimsoll export eight --format markdown
plimsoll report eight --output disk.html

# The command lines of diskspd and SQLIO, with their reports; the table of CrystalDiskMark; a drive in its steady state.
plimsoll disk --diskspd -b4K -d1 -W0 -o4 -t2 -r -w30 -Sh -L -c16M diskspd.dat
plimsoll disk --sqlio -kR -s1 -frandom -o8 -b8 -LS diskspd.dat
plimsoll disk plimsoll-disk.bin --size 16MiB --profile desktop --warm-up 0s --duration 200ms --quiet
plimsoll disk steady.bin --size 16MiB --write --precondition --warm-up-round 1s --duration 1s --live live.csv --quiet

# A copy without the page cache, the time of a larger one, and commands.
plimsoll copy generate:16MiB plimsoll-copy.bin --run-dir copy --quiet
plimsoll size copy --for 1TB
plimsoll exec 'true' 'ls -l /usr/bin' --repeat 5 --export-markdown launches.md --quiet
plimsoll exec --repeat 5 --quiet -- ls -l /usr/bin
plimsoll runs

# A web server.
web=$(mktemp -d "$PWD/web-XXXXXX")
server=
recorder=
trap 'for process in $recorder $server; do kill "$process" || true; done; rm -rf "$web"' EXIT
seq 100 > "$web/index.html"
cat > "$web/nginx.conf" << END
daemon off; master_process off; pid $web/pid; error_log stderr crit; events {}
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi; server { listen 127.0.0.1:18090; root $web; } }
END
PATH=$PATH:/usr/sbin
# How long until the server answers?
plimsoll exec --repeat 2 --until-port 127.0.0.1:18090 --quiet -- nginx -e stderr -p "$web" -c "$web/nginx.conf"
rm -f "$web/pid"
nginx -e stderr -p "$web" -c "$web/nginx.conf" &
server=$!
# The server writes its process id once it listens.
while kill -0 $server && ! [ -s "$web/pid" ]; do sleep 0.1; done
# Users who do several things, from a scenario file.
cat > "$web/scenario.toml" << END
base = "http://127.0.0.1:18090"

[data.pages]
file = "pages.csv"

[[transaction]]
name = "read"
weight = 3
[[transaction.request]]
name = "index"
url = "/"
extract.last = { regex = '([0-9]+)' }
think = "20ms"
[[transaction.request]]
name = "page"
url = "/index.html?page=\${pages.number}&last=\${last}"
check = [{ contains = "100" }]

[[transaction]]
name = "miss"
[[transaction.request]]
url = "/none-\${number}"
expect_status = "404"
END
printf 'number\n1\n2\n3\n' > "$web/pages.csv"
plimsoll http --from "$web/scenario.toml" --concurrency 4 --warm-up 0s --duration 1s --run-dir scenario --quiet
plimsoll show scenario
# A session that a browser recorded: as a scenario file, without its pauses.
cat > "$web/session.har" << END
{ "log": { "version": "1.2", "entries": [
  { "startedDateTime": "2026-03-01T12:00:00Z", "time": 20, "request": { "method": "GET", "url": "http://127.0.0.1:18090/",
    "headers": [] }, "response": { "status": 200, "headers": [], "content": {} } },
  { "startedDateTime": "2026-03-01T12:00:09Z", "time": 20, "request": { "method": "GET",
    "url": "http://127.0.0.1:18090/index.html", "headers": [] }, "response": { "status": 200, "headers": [], "content": {} } }
] } }
END
plimsoll http convert "$web/session.har" --think-scale 0 -o "$web/session.toml"
plimsoll http --from "$web/session.toml" --warm-up 0s --duration 1s --goal 'recording:index-html.p95 <= 1s' --quiet
# A session through the recording proxy.
plimsoll http record --listen 127.0.0.1:18087 --target http://127.0.0.1:18090 -o "$web/recorded.toml" > "$web/record.log" &
recorder=$!
while kill -0 $recorder && ! grep -q recording "$web/record.log"; do sleep 0.1; done
plimsoll http http://127.0.0.1:18087/ --rate 5/s --warm-up 0s --duration 1s --quiet
kill $recorder
wait $recorder
recorder=
plimsoll http --from "$web/recorded.toml" --warm-up 0s --duration 1s --quiet
# A scenario of WCAT with its settings file.
echo 'scenario { warmup = 0; duration = 1; transaction { id = "home"; request { url = "/"; } } }' > "$web/home.ubr"
echo 'settings { server = "127.0.0.1:18090"; clients = 1; virtualclients = 2; }' > "$web/settings.ubr"
plimsoll http --from "$web/home.ubr" --wcat-settings "$web/settings.ubr" --quiet
# One request to each server of a list.
printf 'farm,broker,port\none,127.0.0.1,18090\n' > "$web/list.csv"
plimsoll http --probe "$web/list.csv" --path /index.html --passes 2 --every 100ms
plimsoll http http://127.0.0.1:18090/ --rate 200/s --warm-up 0s --duration 1s --goal 'get.response.p95 <= 1s' --quiet
