"""The language server: what editors ask about programs. `server.py` alone knows the protocol."""
