#!/bin/sh
# Runs `plimsoll gate` in a job of a CI system: finds out what a change is compared with, and writes a summary.
#
# It needs git with the history of both branches, and `plimsoll` in PATH or in PLIMSOLL. What it does is set by variables:
#
#   GATE_EXPERIMENT    experiment file with [target] or a command; or
#   GATE_COMMAND       shell command that is timed
#   GATE_BUILD         shell command that builds a version; none for what needs no build
#   GATE_BASE          commit or branch to compare with; default: the target branch of the change, or the commit before
#   GATE_METRIC        metrics, separated by blanks, such as "cpu_per_operation response.p95"
#   GATE_SLOWDOWN      smallest slowdown that matters; default 2%
#   GATE_ROUNDS_MAX    most rounds
#   GATE_INCONCLUSIVE  "pass" (default) or "fail": what "can't tell" does to the job
#   GATE_SUMMARY       file that the summary is appended to; default: that of GitHub or Gitea, otherwise gate.md
#   GATE_RUN_DIR       folder of the record; default gate-run
#
# Exit code: 0 not slower, 99 slower; with GATE_INCONCLUSIVE=fail also 98 too much noise, and 97 the load generator was the
# limit; others as `plimsoll`.
set -eu

plimsoll=${PLIMSOLL:-plimsoll}
summary=${GATE_SUMMARY:-${GITHUB_STEP_SUMMARY:-gate.md}}
run_dir=${GATE_RUN_DIR:-gate-run}

# The target branch as the CI system names it, or the commit before.
base=${GATE_BASE:-}
if [ -z "$base" ]; then
    if [ -n "${GITHUB_BASE_REF:-}" ]; then
        base=origin/$GITHUB_BASE_REF
    elif [ -n "${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}" ]; then
        base=$CI_MERGE_REQUEST_DIFF_BASE_SHA
    elif [ -n "${CHANGE_TARGET:-}" ]; then
        base=origin/$CHANGE_TARGET
    elif [ -n "${SYSTEM_PULLREQUEST_TARGETBRANCH:-}" ]; then
        base=origin/${SYSTEM_PULLREQUEST_TARGETBRANCH#refs/heads/}
    elif [ -n "${BITBUCKET_PR_DESTINATION_COMMIT:-}" ]; then
        base=$BITBUCKET_PR_DESTINATION_COMMIT
    elif [ -n "${BUILDKITE_PULL_REQUEST_BASE_BRANCH:-}" ]; then
        base=origin/$BUILDKITE_PULL_REQUEST_BASE_BRANCH
    else
        base=HEAD~1
    fi
fi

set -- gate --base-commit "$base" --summary "$summary" --run-dir "$run_dir"
[ -z "${GATE_BUILD:-}" ] || set -- "$@" --build "$GATE_BUILD"
[ -z "${GATE_SLOWDOWN:-}" ] || set -- "$@" --slowdown "$GATE_SLOWDOWN"
[ -z "${GATE_ROUNDS_MAX:-}" ] || set -- "$@" --rounds-max "$GATE_ROUNDS_MAX"
for metric in ${GATE_METRIC:-}; do set -- "$@" --metric "$metric"; done
if [ -n "${GATE_EXPERIMENT:-}" ]; then
    set -- "$@" "$GATE_EXPERIMENT"
elif [ -n "${GATE_COMMAND:-}" ]; then
    set -- "$@" -- "$GATE_COMMAND"
else
    echo "gate.sh: set GATE_EXPERIMENT to an experiment file, or GATE_COMMAND to a command" >&2
    exit 2
fi

outcome=0
"$plimsoll" "$@" || outcome=$?
notice() {
    if [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::$1::$2"; else echo "$2" >&2; fi
}
case $outcome in
99) notice error "plimsoll gate: the change is slower than $base, or misses a goal" ;;
97 | 98)
    notice warning "plimsoll gate: too much noise, or too slow a load generator, to tell whether the change is slower than $base"
    [ "${GATE_INCONCLUSIVE:-pass}" = fail ] || outcome=0
    ;;
esac
exit $outcome
