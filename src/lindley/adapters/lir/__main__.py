"""``python -m lindley.adapters.lir`` prints where the file of short names for LiR is."""

from lindley.adapters.lir import REGISTRY

if __name__ == "__main__":
    print(REGISTRY)
