#!/bin/sh
# PostToolUse on Write and Edit: a linter, as small as they come. What it finds is context for the model's next step; the
# result of the call stays as it is.
cat >/dev/null
found=$(cd "$CLAUDE_PROJECT_DIR/workspace" && grep -n ' $' ./*.md | cut -d: -f1,2 | tr '\n' ' ')

if [ -n "$found" ]; then
    cat <<JSON
{"hookSpecificOutput": {
    "hookEventName": "PostToolUse",
    "additionalContext": "Lines that end in spaces: $found"
}}
JSON
fi
