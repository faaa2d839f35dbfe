"""Pictures of what parsers find: arcs, trees, bars, heat maps."""
