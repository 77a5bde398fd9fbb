"""``python -m takt`` runs the `takt` tool."""

from ._tool import main

main()
