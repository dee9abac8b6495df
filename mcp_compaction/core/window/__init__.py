"""The window as the model sees it, and how full it is."""
