"""What opencode's plugin needs: the plugin itself, and its messages as a provider has them."""
