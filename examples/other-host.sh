#!/bin/sh
# What limits a server that is another host, of which only its exporter can be read? A web server and node_exporter run in a
# network namespace of their own, where that is permitted. No process and no file of the server is watched.
set -eu

umask 077
folder=$(mktemp -d)
PATH=$PATH:/usr/sbin:/sbin
inside=
address=127.0.0.1
namespace=plimsoll-$$
server=
exporter=
finish() {
    kill $server $exporter 2> /dev/null || true
    wait
    [ -z "$inside" ] || ip netns delete "$namespace"
    rm -rf "$folder"
}
trap finish EXIT
if [ "$(id -u)" -eq 0 ] && ip netns add "$namespace" 2> /dev/null; then
    inside="ip netns exec $namespace"
    address=10.203.77.2
    ip link add "p$$" type veth peer name eth0 netns "$namespace"
    ip address add 10.203.77.1/30 dev "p$$"
    ip link set "p$$" up
    ip -n "$namespace" address add $address/30 dev eth0
    ip -n "$namespace" link set eth0 up
    ip -n "$namespace" link set lo up
fi

# A page that is compressed for each request, so that an answer uses CPU.
seq 60000 > "$folder/index.html"
cat > "$folder/nginx.conf" << END
daemon off; worker_processes $(nproc); pid $folder/pid; error_log stderr crit; events {}
http { access_log off; default_type text/html; gzip on; gzip_http_version 1.0; gzip_comp_level 9;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen $address:18141; root $folder; } }
END
# The workers of a server that root starts have another user.
chmod 711 "$folder" && chmod 644 "$folder/index.html"
$inside nginx -e stderr -p "$folder" -c "$folder/nginx.conf" &
server=$!
$inside prometheus-node-exporter --web.listen-address=$address:18142 2> exporter.log &
exporter=$!

cat > other-host.toml << END
name = "A server seen through its exporter"
watch = ["server=http://$address:18142/metrics"]
sample_every = "250ms"
goal = ["failed < 1%", "cpu.busy_share{//server} >= 50%"]
show = ["cpu.busy_share{//server}", "scrape.age_s{//server}"]

[workload.http]
url = "http://$address:18141/index.html"
header = ["Accept-Encoding: gzip"]

[load]
closed = 8
warm_up = "2s"
measure = "6s"
END
tries=0
until curl --silent --fail --output page "http://$address:18141/index.html"; do
    tries=$((tries + 1))
    [ $tries -le 50 ] || exit 1
    sleep 0.1
done

plimsoll check other-host.toml
plimsoll run other-host.toml --run-dir other
plimsoll explain other
# The host beside this one, three seconds long.
plimsoll watch --watch host --from "server=http://$address:18142/metrics" --duration 3s
# The verdict names the server's host.
grep -q '"host": *"server"' other/result.json
