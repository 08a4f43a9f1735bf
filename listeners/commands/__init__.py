"""Commands from the server: poll for them, execute them."""
