echo 'from the plugin' >&2
exit 2
