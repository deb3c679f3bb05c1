"""What a cell shows: bundles of mimetypes and lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from IPython.display import clear_output, display, update_display

__all__ = ["ShownBundle", "say", "show"]


class ShownBundle:
    """A bundle on display, which any thread may replace."""

    def __init__(self, display_id: str) -> None:
        self._id = display_id

    def replace(self, bundle: Mapping[str, str]) -> None:
        """Show `bundle` in its place, in front ends that can do that."""
        update_display(dict(bundle), raw=True, display_id=self._id)

    def show_again(self, bundle: Mapping[str, str]) -> None:
        """Clear the cell's output and show `bundle`, in front ends that may not replace."""
        clear_output(wait=True)
        display(dict(bundle), raw=True, display_id=self._id)


def show(bundle: Mapping[str, str], *, once: bool = False) -> ShownBundle:
    """Show a bundle in the running cell.

    Args:
        bundle: the same content as several mimetypes.
        once: it will not be replaced.
    """
    display_id = uuid4().hex
    options = {} if once else {"display_id": display_id}
    display(dict(bundle), raw=True, **options)
    return ShownBundle(display_id)


def say(line: str) -> None:
    """Print a line in the running cell."""
    print(line, flush=True)  # noqa: T201 - what a cell is told in text goes to its stdout
