"""Reads what was recorded: steps, tool calls, failures, tasks, decisions, quotations."""
