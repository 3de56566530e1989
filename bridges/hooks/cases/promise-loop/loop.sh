#!/bin/sh
# Goes on with the task in loop.state until the model says the promise, or the rounds are used up.
cd "$(dirname "$0")" || exit 1
input=$(cat)
[ -f loop.state ] || exit 0
round=$(sed -n 's/^round: //p' loop.state)
most=$(sed -n 's/^most: //p' loop.state)
promise=$(sed -n 's/^promise: //p' loop.state)
task=$(sed -n 's/^task: //p' loop.state)
case $input in
    *"<promise>$promise</promise>"*) rm loop.state; exit 0 ;;
esac
if [ "$round" -ge "$most" ]; then
    rm loop.state
    exit 0
fi
round=$((round + 1))
sed "s/^round: .*/round: $round/" loop.state > loop.next && mv loop.next loop.state
printf '{"decision":"block","reason":"round %s: %s","systemMessage":"loop: round %s of %s"}\n' "$round" "$task" "$round" "$most"
