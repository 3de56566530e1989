# Says once what every command of the session finds: a mode, a search path, a greeting.
cat >/dev/null
[ -n "$CLAUDE_ENV_FILE" ] || exit 0
{
  echo 'export PROJECT_MODE=development'
  echo 'export PROJECT_TOOLS=/opt/tools'
  echo 'export PROJECT_TOOLS="$PROJECT_TOOLS:/opt/more tools"'
  echo "export PROJECT_GREETING=hello"
  echo 'PROJECT_UNEXPORTED=1'
} >> "$CLAUDE_ENV_FILE"
