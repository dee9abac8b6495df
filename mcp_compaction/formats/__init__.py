"""Provider message shapes and the model, both ways."""
