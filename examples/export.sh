#!/bin/sh
# A record in the formats of other programs, and figures that are sent while a load runs.
set -eu

plimsoll disk plimsoll-export.bin --size 16MiB --read-percent 70 --outstanding 4 --warm-up 0s --duration 1s --run-dir run --quiet

# Prometheus makes a database of this: promtool tsdb create-blocks-from openmetrics run.om
plimsoll export run --format openmetrics --output run.om
grep plimsoll_response_time_seconds_count run.om
# The OpenTelemetry Collector reads it with its receiver otlpjsonfile.
plimsoll export run --format otlp --output run.jsonl
# HistogramLogAnalyzer opens it, and DuckDB the tables: SELECT * FROM 'tables/operations.parquet'
plimsoll export run --format hdrhistogram --output run.hlog
plimsoll export run --format parquet --output tables
# Performance Monitor's names for the counters; our own import reads them back.
plimsoll export run --format perfmon-csv --output counters.csv
plimsoll import counters.csv --run-dir counters

# An endpoint that does not exist changes nothing but the warning at the end.
plimsoll null --warm-up 0s --duration 1s --export-to http://127.0.0.1:9/v1/metrics --run-dir sent --quiet
