"""``python -m takt`` is the tool."""

from ._tool import main

main()
