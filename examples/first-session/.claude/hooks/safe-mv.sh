#!/bin/sh
# PreToolUse on `mv …`: adds -n, so that nothing is overwritten. `updatedInput` replaces the whole input.
command=$(sed -nE 's/.*"command":"(([^"\\]|\\.)*)".*/\1/p')

case "$command" in
    "mv -n "*) ;;
    "mv "*)
        cat <<JSON
{"hookSpecificOutput": {
    "hookEventName": "PreToolUse",
    "permissionDecision": "allow",
    "updatedInput": {"command": "mv -n ${command#mv }"}
}}
JSON
        ;;
esac
