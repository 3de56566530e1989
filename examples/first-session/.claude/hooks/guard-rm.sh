#!/bin/sh
# PreToolUse on Bash: nothing is removed for good. Where jq is installed, `jq -r .tool_input.command` does what sed does here;
# the command stays as JSON writes it, with its escapes.
command=$(sed -nE 's/.*"command":"(([^"\\]|\\.)*)".*/\1/p')

# At the beginning of the command, or after something that begins another one.
if printf '%s' "$command" | grep -Eq '(^|[;&|(]|\\n|sudo|xargs) *rm +-[a-zA-Z]*[rRf]'; then
    cat <<'JSON'
{"hookSpecificOutput": {
    "hookEventName": "PreToolUse",
    "permissionDecision": "deny",
    "permissionDecisionReason": "rm -r and rm -f cannot be undone. Move it to workspace/trash instead."
}}
JSON
fi
