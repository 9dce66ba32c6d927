#!/bin/sh
# A metadirectory: a staff file of 1,000 people, a phone book in a database, and a directory with the data of both.
# First the initial load, then the changes of a day.
set -eu

plimsoll metadir init --target ldif --people 1000
plimsoll metadir check
plimsoll metadir preview full
plimsoll metadir run full
plimsoll metadir status

# A day later: changes, leavers and joiners.
plimsoll generate people --count 1000 --attributes 8 --format csv --day 1 --output staff.csv
plimsoll metadir run full
plimsoll metadir history --most 5

# What an administrator checks of the store: durability, cache, devices, free space, growth.
plimsoll doctor --store
