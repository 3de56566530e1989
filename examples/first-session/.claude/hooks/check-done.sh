#!/bin/sh
# Stop: no end before the linter is content. `stop_hook_active` is true when this has sent the model back before in this turn;
# then it lets go, so that a model that cannot do it is not kept for ever.
if grep -q '"stop_hook_active":true'; then
    exit 0
fi
if grep -q ' $' "$CLAUDE_PROJECT_DIR"/workspace/*.md; then
    echo '{"decision": "block", "reason": "Some lines still end in spaces. Correct them before you stop."}'
fi
