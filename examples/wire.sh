#!/bin/sh
# Captured packets of a directory and of a web server; then, where it is permitted, a load beside its own capture.
set -eu

captures=$(cd -P "$(dirname "$0")/../crates/wire/fixtures" && pwd -P)

# What operations are there, how long do they take, which filters cost most, and is the network sound?
plimsoll wire "$captures/ldap.pcap" --slow 1ms --html wire.html
# Which searches took long, and what did they search for?
plimsoll wire "$captures/ldap.pcap" --where 'kind = search and (time > 500us or code != success)' --operations
# The same as data, and a capture of HTTP.
plimsoll wire "$captures/ldap.pcap" --operations --format csv > operations.csv
plimsoll wire "$captures/http.pcapng" --json > wire.json

PATH=$PATH:/usr/sbin
if [ "$(id -u)" -ne 0 ] || ! command -v tcpdump > /dev/null || ! command -v slapd > /dev/null; then
    echo "the comparison of a load with its capture needs root, tcpdump and slapd"
    exit 0
fi
folder=$(mktemp -d "$PWD/directory-XXXXXX")
slapd=
tcpdump=
trap 'for process in $tcpdump $slapd; do kill "$process" || true; done; rm -rf "$folder"' EXIT
mkdir "$folder/db"
cat > "$folder/slapd.conf" << END
include /etc/ldap/schema/core.schema
pidfile $folder/pid
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=example,dc=com"
directory $folder/db
END
printf 'dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n' > "$folder/top.ldif"
slapd -T add -q -f "$folder/slapd.conf" -l "$folder/top.ldif"
slapd -d 0 -h ldap://127.0.0.1:18389 -f "$folder/slapd.conf" &
slapd=$!
while kill -0 $slapd && ! [ -s "$folder/pid" ]; do sleep 0.1; done
tcpdump -i lo -U -s 256 -B 16384 -Z root -w "$folder/load.pcap" 'tcp port 18389' 2> "$folder/log" &
tcpdump=$!
while kill -0 $tcpdump && ! grep -q listening "$folder/log"; do sleep 0.1; done
plimsoll ldap search ldap://127.0.0.1:18389 --base dc=example,dc=com --rate 200/s --warm-up 0s --duration 1s --run-dir load --quiet
# The kernel hands over the last packets within a second.
sleep 2
kill $tcpdump
wait $tcpdump || true
tcpdump=
# Do client and wire agree, and how much of the time is in the client?
plimsoll wire "$folder/load.pcap" --against load
