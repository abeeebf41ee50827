"""Models of one layer, from an expression such as `conv(kernel=3, dilations=2)` in the place of a path."""
