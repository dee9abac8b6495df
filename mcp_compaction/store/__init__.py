"""The session store: one SQLite file that never rewrites what was said."""
