#!/bin/sh
# Is a change slower? Two commits of a repository are built and measured in turns, until a slowdown of 10 % would be found.
# 0: not slower; 99: slower; 98: too much noise to tell.
set -eu

git init --quiet --initial-branch main project
cd project
git config user.name example
git config user.email example@localhost
change() {
    printf '%s\n' "$1" > count.awk.in
    git add count.awk.in
    git commit --quiet --message "$2"
}
change 'BEGIN { for (i = 0; i < 200000; i++) sum += i % 7; print sum }' "Count"
change 'BEGIN { for (at = 0; at < 200000; at++) sum += at % 7; print sum }' "Rename a variable"
git branch renamed
change 'BEGIN { for (at = 0; at < 200000; at++) sum += length(at " ") + at % 7; print sum }' "Count in words"

# CPU time of a launch has less noise than elapsed time.
gate() {
    plimsoll gate --build 'cp count.awk.in count.awk' --metric cpu_per_operation --slowdown 10% --summary ../summary.md --quiet "$@" \
        -- awk -f count.awk
}
gate --base-commit main~2 --head-commit renamed --run-dir ../renamed
gate --base-commit renamed --run-dir ../counted || echo "exit code $?"
cat ../summary.md
