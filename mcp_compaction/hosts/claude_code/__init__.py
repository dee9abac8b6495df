"""What runs inside Claude Code: the plugin, with the module that hands its compactions to us."""
