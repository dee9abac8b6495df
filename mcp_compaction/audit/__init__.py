"""What past compactions of a host lost and cost, read from the transcripts that it keeps."""
