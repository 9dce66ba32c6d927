#!/bin/sh
# Loads without an experiment file, and what can be asked of their records afterwards.
set -eu

# A disk, twice, and the two side by side.
plimsoll disk plimsoll-disk.bin --size 16MiB --outstanding 1 --warm-up 0s --duration 1s --run-dir one --quiet
plimsoll disk plimsoll-disk.bin --size 16MiB --outstanding 8 --warm-up 0s --duration 1s --run-dir eight --quiet
plimsoll compare one eight
plimsoll show eight --verbose
plimsoll explain eight
plimsoll export eight --format markdown
plimsoll report eight --output disk.html

# A copy past the page cache, and a command.
plimsoll copy generate:16MiB plimsoll-copy.bin --quiet
plimsoll exec --repeat 5 --quiet -- ls -l /usr/bin
plimsoll runs

# A web server.
web=$(mktemp -d "$PWD/web-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$web"' EXIT
seq 100 > "$web/index.html"
cat > "$web/nginx.conf" << END
daemon off; master_process off; pid $web/pid; error_log stderr crit; events {}
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi; server { listen 127.0.0.1:18090; root $web; } }
END
PATH=$PATH:/usr/sbin
# How long until it answers?
plimsoll exec --repeat 2 --until-port 127.0.0.1:18090 --quiet -- nginx -e stderr -p "$web" -c "$web/nginx.conf"
rm -f "$web/pid"
nginx -e stderr -p "$web" -c "$web/nginx.conf" &
server=$!
# It writes its process id once it listens.
while kill -0 $server && ! [ -s "$web/pid" ]; do sleep 0.1; done
plimsoll http http://127.0.0.1:18090/ --rate 200/s --warm-up 0s --duration 1s --goal 'get.response.p95 <= 1s' --quiet
