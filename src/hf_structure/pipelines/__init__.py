"""From text to structures."""
