"""From text to structures: one parser behind every door."""
