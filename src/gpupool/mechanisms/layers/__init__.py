"""The layers: what is added to an allocation that a mechanism has prepared, one module each.

`contract.Layer` says what a layer can do, `preparation` calls them in the order of
`registry.LAYERS`. `layer_notes` keeps their records; it knows no layer.
"""
