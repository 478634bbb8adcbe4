"""``python -m lindley`` forked from a process that has imported what commands need: a command begins at once.

For tests of what a job leaves behind, and not of its process. ``warm.py serve PATH`` waits at a socket; ``warm.py run PATH …``
is the command: it hands over where it stands, its environment and its streams, and ends as the fork does, which ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading

LARGEST = 1 << 20


def serve(path: str) -> None:
    """Fork for everybody who comes; ends with its standard input."""
    import lindley.casework.case
    import lindley.casework.validation
    import lindley.pages.case_page
    import lindley.pages.validation_page
    import lindley.system.train  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        print("ready", flush=True)
        while True:
            caller, _ = door.accept()
            if os.fork() == 0:
                answer(caller)
            caller.close()


def answer(caller: socket.socket) -> None:
    """Run the command of a caller, in a process that ends with it."""
    from lindley.cli.commands import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    given, streams, _, _ = socket.recv_fds(caller, LARGEST, 2)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    where, environment, sys.argv = json.loads(given)
    os.chdir(where)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=lambda: (caller.recv(1), os._exit(1)), daemon=True).start()
    status = 0
    try:
        main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    caller.sendall(bytes([status]))
    os._exit(status)


def run(path: str, arguments: list[str]) -> int:
    """Have the command run; its status."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
        given = json.dumps([os.getcwd(), dict(os.environ), ["lindley", *arguments]])
        socket.send_fds(caller, [given.encode()], [1, 2])
        status = caller.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1] == "serve" else run(sys.argv[2], sys.argv[3:]))
