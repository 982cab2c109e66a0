"""What pages show of the published data: `TEXTS` has a function for each name, which returns the text."""

import importlib

from page_data.registry import TEXTS, listed

MODULES = "counts beside readme algorithms plus adaptation environments other transfer readings extras benchmark"
for _module in MODULES.split():
    importlib.import_module(f"page_data.{_module}")  # each adds its functions

__all__ = ["TEXTS", "listed"]
