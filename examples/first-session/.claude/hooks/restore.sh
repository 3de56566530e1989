#!/bin/sh
# SessionStart: every new session begins with the same workspace. What this prints is context for the model.
set -eu
cd "$CLAUDE_PROJECT_DIR"
rm -rf workspace
cp -R pristine workspace
echo "The workspace was restored from pristine/. It has: $(ls workspace | tr '\n' ' ')"
