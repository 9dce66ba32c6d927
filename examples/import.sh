#!/bin/sh
# Results of other tools, with the counters of the server that they loaded: the curve over the block size, and what limits.
set -eu

results=$(cd -P "$(dirname "$0")/import" && pwd -P)

# Which formats are read?
plimsoll import --formats
# SQLIO does not say when it ran, so the begin of its first run is given. server.csv is a log of Performance Monitor.
plimsoll import "$results/sqlio.txt" "$results/server.csv" --begin 2014-11-26T11:00:00Z --run-dir array
plimsoll explain array
# If SQLIO ran on a client, over a share: the counters keep the name of the server.
plimsoll import "client1=$results/sqlio.txt" "$results/server.csv" --begin 2014-11-26T11:00:00Z --run-dir remote
# Logs of fio are the course of its run, beside the JSON.
if command -v fio > /dev/null; then
    fio --name=mixed --filename=data --size=4m --rw=randrw --bs=4k --ioengine=psync --time_based --runtime=3 \
        --log_avg_msec=250 --write_bw_log=mixed --write_iops_log=mixed --write_lat_log=mixed \
        --output-format=json+ --output=mixed.json
    plimsoll import mixed.json mixed_*.log --run-dir mixed
fi
# What Linux tools print is read too.
LC_ALL=C vmstat -t 1 3 > vmstat.txt || exit 0
plimsoll import vmstat.txt --run-dir linux
