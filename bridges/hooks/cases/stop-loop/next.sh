#!/bin/sh
cd "$(dirname "$0")" || exit 1
grep -o '"stop_hook_active":[a-z]*' >> flags
next=$(head -n 1 todo)
[ -n "$next" ] || exit 0
sed 1d todo > rest
mv rest todo
printf '{"decision":"block","reason":"to do: %s"}' "$next"
