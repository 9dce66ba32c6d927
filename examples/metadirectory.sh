#!/bin/sh
# A metadirectory: a staff file of 1,000 people and a phone book that follows it, today and tomorrow.
set -eu

plimsoll metadir init
plimsoll metadir check
plimsoll generate people --count 1000 --attributes 8 --format csv --output staff.csv
plimsoll metadir run full
plimsoll metadir status

# A day later some have changed, some have left, some have joined.
rm staff.csv
plimsoll generate people --count 1000 --attributes 8 --format csv --day 1 --output staff.csv
plimsoll metadir run full
plimsoll metadir history --most 5
