"""Figures, one function for each; matplotlib is imported in this folder only."""

from matplotlib.figure import Figure as Figure

from safedsr.figures.files import save as save
from safedsr.figures.maps import draw_map as draw_map
from safedsr.figures.maps import draw_path as draw_path
from safedsr.figures.maps import map_figure as map_figure
from safedsr.figures.maps import map_row as map_row
