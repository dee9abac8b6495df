"""How each host is started with a gateway: one module a host, which its file names."""
