"""What an interrupted message is cleaned of before it is kept; the rule is the message's, so it lives with them."""

from __future__ import annotations

from chatagent.ui import cleanup_aborted_parts

__all__ = ["cleanup_aborted_parts"]
