"""``lindley app``: the laboratory's bench in a browser, on one machine. The commands stay the truth; pages show which.

How the parts hang together, from the outside in::

    browser ── server.py   a socket on 127.0.0.1, uvicorn, the address with its token
               guard.py    who may speak: Host, token and cookie, Sec-Fetch-Site, Origin; headers of every answer
               site.py     Starlette application: templates, language, errors, static files
               forms.py    every POST: limits, the csrf secret, done once however often it is sent
               pages/      one module per part of the bench: what it shows, what it does
               bench.py    the folder, and what is in it; all pages have it as request.app.state.bench
               ├─ database.py   bench.sqlite
               ├─ jobs.py       the queue: 'python -m lindley …', one at a time, with limits, cancelled, broken off, gone on
               └─ reader.py     a process that reads tables and headers of systems (look.py), so that this one never does

The server imports neither torch nor numpy: it answers within a second of its start, and while a training runs. Whatever needs
them is a job (`Queue.add`: a command line) or a question to the reader (``await bench.reader.ask("look", …)``).

To add a page:

1. ``pages/NAME.py`` with ``ROUTES``: ``Route(path, show)`` for what is shown, ``post(path, act)`` for what is done (never a
   bare Route with POST: a test looks; ``once=False`` for a choice that may be made again). ``show`` ends in ``page(request,
   "NAME.html", …)``; ``act`` takes the request and a `Form`, and gives back the address of the page that follows. Ids in
   addresses are ``{id:int}``, and are looked up; no path, no name of a file comes from a request. Add the module to ROUTES
   and NAVIGATION in ``pages/__init__.py``.
2. ``templates/NAME.html``, which extends ``base.html``. Every word through ``t("English sentence with {n}", n=…)``, its Dutch
   in ``dutch.yaml``. A form: ``{{ hidden(csrf, new_key()) }}`` of ``parts.html``, a label for every input. Names from users
   are shown with ``{{ own(name) }}``; nothing of theirs is ever marked ``|safe``.
3. Work: ``job = bench.queue.add("train", title, ["train", stored.relative, "--out", …], output="systems/…")`` and follow with
   ``return address(job)`` (``pages/jobs.py``; ADDRESSES for a page of its own). ``shown_job(request, job)`` is its progress,
   which keeps itself up to date inside ``<div data-events="/jobs/ID/events">``; the page is loaded again when the job has
   ended.
4. Questions about files: a function in a module of its own (as in ``look.py``: plain data in, plain data out, `LindleyError`
   for what a user can mend), by name in ``reader.ANSWERS``.
5. A report: ``Route(…, lambda …: report(bench.path(job.output) / "report.html"))`` and ``{{ frame(t, address, title) }}`` of
   ``parts.html``: reports have scripts of their own, and run in a sandbox.
6. Tables of the database of your own: another text of ``CREATE TABLE IF NOT EXISTS`` in ``database.SCHEMA``, at its end.
7. Tests: ``tests/app/conftest.py`` has ``client`` (in this process: ``client.get``, ``client.submit(path, field=…)``,
   ``client.upload(name, bytes)``, ``client.bench``) and ``start`` with ``Watched`` (the real thing, in Chromium).
"""
