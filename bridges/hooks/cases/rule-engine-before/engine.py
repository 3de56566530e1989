#!/usr/bin/env python3
"""A rule engine on four events: each rule of rules.json names an event, a pattern and what is to be done."""
import json
import pathlib
import re
import sys

FIELDS = {
    "PreToolUse": lambda e: json.dumps(e["tool_input"], ensure_ascii=False),
    "PostToolUse": lambda e: json.dumps(e["tool_response"], ensure_ascii=False),
    "UserPromptSubmit": lambda e: e["prompt"],
    "Stop": lambda e: e["last_assistant_message"] or "",
}


def main():
    event = json.load(sys.stdin)
    name = event["hook_event_name"]
    text = FIELDS[name](event)
    rules = json.loads((pathlib.Path(__file__).parent / "rules.json").read_text())
    fitting = [
        rule
        for rule in rules
        if rule["event"] == name
        and re.search(rule["pattern"], text)
        and re.fullmatch(rule.get("tool", ".*"), event.get("tool_name", ""))
    ]
    blocking = [rule["message"] for rule in fitting if rule["action"] == "block"]
    warning = [rule["message"] for rule in fitting if rule["action"] == "warn"]
    # Once forced on, let go: a rule that never stops fitting must not hold the turn forever.
    if name == "Stop" and event["stop_hook_active"]:
        blocking = []
    answer = {}
    if blocking and name == "PreToolUse":
        answer["hookSpecificOutput"] = {
            "hookEventName": name,
            "permissionDecision": "deny",
            "permissionDecisionReason": "\n".join(blocking),
        }
    elif blocking:
        answer.update(decision="block", reason="\n".join(blocking))
    elif warning and name != "Stop":
        answer["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": "\n".join(warning)}
    print(json.dumps(answer, ensure_ascii=False))


main()
