"""Loading from and publishing on the Hub, and model cards."""
