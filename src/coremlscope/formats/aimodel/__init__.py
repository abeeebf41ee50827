"""Core AI: reading of `.aimodel` bundles, and their translation into the operations of ML Programs.

`bundle` reads the files, `bytecode`, `dialect` and `encoding` what they encode, `content` the program as
coreai-core would show it. Where that is not known, `reader` lets coreai-core write the program again, and
`rewritten` reads it.

`network` translates it, with a table of operations in `elementwise`, `shaping`, `contraction` and
`compression`; `joining` finds what Core ML has as one operation, and `composites` the operations that Core AI
writes as graphs.
"""
