"""Sets hosts up: server, hooks and permissions in a host's own files, and out of them again."""
