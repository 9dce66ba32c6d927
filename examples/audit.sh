#!/bin/sh
# Do the figures of a result fit each other? The exit code is 0 if nothing is found, 98 if there are reasons to doubt the
# result, and 99 if figures contradict each other.
set -eu

examples=$(cd -P "$(dirname "$0")" && pwd -P)

# Published figures, written down as they are printed.
plimsoll audit "$examples/audit/published.toml" || test $? -eq 99
# The output of another tool. Its times are cut to whole milliseconds, which is no contradiction.
plimsoll audit "$examples/import/sqlio.txt"
# One disk of 7,200 revolutions a minute does 140 random operations per second at most: a cache answered.
plimsoll audit "$examples/import/sqlio.txt" --limit 140/s || test $? -eq 99
# A table of results, with the names and units that it has.
cat > results.csv <<TABLE
Test,Block size,Threads,Queue depth,Duration,IOPS,MB/s,Avg latency (ms),p99 (ms),Max (ms)
random read,8 KB,2,4,60 s,12003.00,93.77,0.664,2.13,19.48
sequential read,64 KB,1,8,60 s,3200.80,200.05,6.25,16.02,31.25
TABLE
plimsoll audit results.csv || test $? -eq 99
