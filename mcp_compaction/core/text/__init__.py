"""Reads text: sentences, words, dates, numbers, secrets; it knows no message."""
