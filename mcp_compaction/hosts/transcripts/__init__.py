"""One module a host: how its transcripts are read, piece by piece."""
