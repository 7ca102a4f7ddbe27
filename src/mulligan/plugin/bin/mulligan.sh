#!/bin/sh
# Finds the program: on the path, else in the Python that is there. Hooks and the MCP server of this plugin start here.
for program in mulligan-client mulligan; do
  if command -v "$program" >/dev/null 2>&1; then exec "$program" "$@"; fi
done
# -P: load no modules from the project, because its content is untrusted.
for python in python3 python; do
  if "$python" -P -c 'import mulligan' >/dev/null 2>&1; then exec "$python" -P -m mulligan "$@"; fi
done
missing="mulligan is not installed, so nothing is being saved. Install it: pip install 'mulligan[mcp]'"
if [ "$1" = hook ]; then
  # Never in the agent's way, and never in silence: the start of a session is where people look.
  case "$(cat)" in *'"SessionStart"'*) printf '{"systemMessage": "%s"}\n' "$missing" ;; esac
  exit 0
fi
echo "$missing" >&2
exit 1
