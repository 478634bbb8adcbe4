#!/bin/sh
# Installs lindley $version from this folder. It needs no network and no administrator rights.
#   sh install.sh                      installs into a folder of its own below your home folder
#   sh install.sh --folder ~/programs  installs there
#   sh install.sh --check              only looks whether it would go well
# To use a certain Python:  PYTHON=/opt/python/bin/python$python sh install.sh
here=$$(cd "$$(dirname "$$0")" && pwd) || exit 1
wanted="import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$python'.split('.'))))"
if [ -n "$$PYTHON" ]; then
  if "$$PYTHON" -c "$$wanted" 2>/dev/null; then
    exec "$$PYTHON" -E -s "$$here/install.py" "$$@"
  fi
  echo "lindley is not installed: PYTHON names $$PYTHON, which is not Python $python." >&2
  echo "What to do: set it to the full name of a Python $python, or leave it away." >&2
  exit 1
fi
for candidate in python$python python3 python; do
  if "$$candidate" -c "$$wanted" 2>/dev/null; then
    exec "$$candidate" -E -s "$$here/install.py" "$$@"
  fi
done
echo "lindley is not installed: there is no Python $python on this computer." >&2
echo "This bundle is for Python $python, and for no other version." >&2
echo "What to do: ask whoever looks after this computer for Python $python, or ask for a bundle for the Python that you" >&2
echo "have (python3 --version). If Python $python is here under another name: PYTHON=/full/name sh install.sh" >&2
exit 1
