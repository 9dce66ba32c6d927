#!/bin/sh
# A load that two agents drive together which wait on a NATS server: for many machines, and where SSH is barred. Here the server and the
# agents are processes of this host; in a real fleet the address begins with tls://, and each agent has a credentials file.
set -eu

PATH=$PATH:/usr/sbin
export NATS_TOKEN=an-example

# A free port.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > nats.conf << END
listen: "127.0.0.1:$port"
authorization { token: "$NATS_TOKEN" }
jetstream { store_dir: "$(pwd)/store" }
END
nats-server -c nats.conf 2> nats.log &
processes=$!
trap 'kill $processes 2> /dev/null || true' EXIT

# Waits until a file has a line.
wait_for() {
    tries=0
    until grep -qs "$1" "$2"; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || { cat "$2"; exit 1; }
        sleep 0.1
    done
}
wait_for 'Server is ready' nats.log

# The agents load nothing but this host.
for name in gen1 gen2; do
    plimsoll agent --nats "nats://127.0.0.1:$port/load" --name $name --allow 127.0.0.1/32 --idle 30s 2> $name.log &
    processes="$processes $!"
    wait_for 'waits in fleet' $name.log
done

plimsoll null --on "nats://127.0.0.1:$port/load?agents=2" --rate 500/s --warm-up 1s --duration 3s --run-dir run
plimsoll explain run

# What starts forty of them in Kubernetes.
plimsoll machines kubernetes --agents 40 --nats tls://nats:4222/load --ca --allow web1 > job.yaml
grep -q 'completions: 40' job.yaml
