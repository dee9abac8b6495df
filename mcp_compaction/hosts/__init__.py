"""What is known of hosts: where each keeps its transcripts, and how these are read."""
