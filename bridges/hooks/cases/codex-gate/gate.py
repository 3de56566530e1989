import json, sys

event = json.load(sys.stdin)
command = event["tool_input"]["command"]
if event["tool_name"] == "Bash" and "push --force" in command:
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "History of a shared branch is not rewritten here.",
    }}))
