#!/bin/sh
# Takes white space off the ends of lines, in text files only, and tells the model, whose copy of the file is old now.
file=$(grep -o '"file_path":"[^"]*"' | head -n 1 | cut -d '"' -f 4)
case $file in
    *.txt | *.md | *.sh) ;;
    *) exit 0 ;;
esac
[ -f "$file" ] || exit 0
sed 's/[ 	]*$//' "$file" > "$file.new"
if cmp -s "$file" "$file.new"; then
    rm "$file.new"
    exit 0
fi
mv "$file.new" "$file"
echo "$file" >> "$(dirname "$0")/log"
printf '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"%s was formatted; read it again before you edit it."}}\n' "$file"
