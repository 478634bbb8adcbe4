"""Reports of a run, of a case and of a validation: what they show as data first, then drawn, then one self-contained page."""
