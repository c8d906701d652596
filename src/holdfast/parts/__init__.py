"""One file, one part, one name: the folders of this package are the kinds of parts, see `holdfast.core.registry`."""
