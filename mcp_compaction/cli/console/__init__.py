"""What the commands share: the screen, the arguments, the words, the opening of a store."""
