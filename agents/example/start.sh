#!/bin/sh
# This agent on one's own machine: start, stop, restart, status and logs in the background, foreground here.
set -eu
agent=$(cd "$(dirname "$0")" && pwd)
command=${1:-help}
[ $# -eq 0 ] || shift
export WORKSPACE_DIR="${WORKSPACE_DIR:-$agent/workspace}"
case $command in
start | restart | foreground) mkdir -p "$WORKSPACE_DIR" ;;
stop | status | logs) ;;
*)
    echo "usage: $0 start|stop|restart|status|logs|foreground [options of a2a-claude]" >&2
    exit 2
    ;;
esac
[ "$command" != foreground ] || command=serve
exec a2a-claude "$command" "$agent" "$@"
