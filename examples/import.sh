#!/bin/sh
# Results of other tools, with the counters of the server that they loaded: the curve over the block size, and what limits.
set -eu

results=$(cd -P "$(dirname "$0")/import" && pwd -P)

# Which formats are read?
plimsoll import --formats
# SQLIO does not say when it ran, so the begin of its first run is given. server.csv is a log of Performance Monitor.
plimsoll import "$results/sqlio.txt" "$results/server.csv" --begin 2014-11-26T11:00:00Z --run-dir array
plimsoll explain array
# What Linux tools print is read too.
LC_ALL=C vmstat -t 1 3 > vmstat.txt || exit 0
plimsoll import vmstat.txt --run-dir linux
