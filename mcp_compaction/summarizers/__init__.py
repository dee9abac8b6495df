"""Who writes the prose of a digest; one file each."""
