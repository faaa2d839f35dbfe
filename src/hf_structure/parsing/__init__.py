"""Parsing: text in, structures out. All interfaces share one parser."""
