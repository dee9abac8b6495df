"""Parts that the commands share: screen, arguments, words, opening a store."""
