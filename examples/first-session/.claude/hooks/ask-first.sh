#!/bin/sh
# PreToolUse on publish.sh: others will see it, so a person has to agree.
cat <<'JSON'
{"hookSpecificOutput": {
    "hookEventName": "PreToolUse",
    "permissionDecision": "ask",
    "permissionDecisionReason": "publish.sh shows the notes to everyone; that cannot be taken back."
}}
JSON
