"""Casework: a trained system as a file, a case in, an evaluated and explained LR out."""
