"""Systems: ``train`` makes one, ``update`` gives it more background, ``info`` tells what it is; ``keys`` and ``sign`` vouch
for it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lindley.cli.console import print_table, say, say_json, say_prose, show_progress, warn
from lindley.cli.options import (
    CALIBRATIONS,
    MATES,
    MODELS,
    MOST,
    MOST_SEED,
    NEURAL,
    READING,
    SYSTEM_ENDING,
    AsJson,
    SameLabels,
    Signed,
    SystemFile,
    Tables,
    all_given,
    command_line,
    described_tables,
    load_tables,
    read_mates,
    reads_table,
    require_files,
    require_place,
    tell_findings,
)
from lindley.errors import LindleyError

__all__ = ["info", "keys", "sign", "train", "update"]

AS_TRAINED = ("include_columns", "ignore_columns", "transform", "reference_column", "units")
"""What a system knows of a table that is read for it."""


@reads_table()
def train(
    tables: Tables,
    out: Annotated[Path, typer.Option(help=f"The system file to write: NAME{SYSTEM_ENDING}.")],
    reading: dict[str, Any],
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{MODELS}, or a neural {NEURAL}; {CALIBRATIONS} behind that calibrate it afterwards. Default: robust, with "
            "the held-out cost of two plain models beside its own."
        ),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST,
            help="Bootstrap replicates, which give the interval. Default: 10; 100 of tlm and tlm-kde, 20 of ht-plda and of a "
            "neural model.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Epochs of a neural model. Default: 2000.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of folds, bootstrap and training.")] = 0,
    mates: Annotated[str, typer.Option(help=MATES)] = "as-in-table",
    same_labels: SameLabels = None,
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="Hold the mean of no training source: sources are moved at random first. Another system every time.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the system file if it is there.")] = False,
) -> None:
    """Train a system on a table, and write it to one file, with its validation and its provenance.

    Several tables are one background: they have the same features, in any order, in the same units. The file holds numbers and
    names, and no code. 'lindley case' evaluates cases with it.
    """
    require_place(out, (SYSTEM_ENDING,), tuple(map(Path, tables)), force=force)
    from lindley.system.kinds import DEFAULT_MODEL
    from lindley.system.names import ModelName

    kind = ModelName.parse(model or DEFAULT_MODEL).kind
    described = described_tables(tables, reading)
    data = load_tables(described, same_labels)

    from lindley.pages.case_words import cheaper_rival, describe_training
    from lindley.system.train import train as train_system  # brings torch

    options = {"epochs": epochs} if epochs is not None and "epochs" in kind.options.model_fields else None
    with show_progress() as progress:
        system = train_system(
            data,
            model,
            options=options,
            replicates=replicates,
            seed=seed,
            mates=read_mates(mates),
            private=private,
            progress=progress.step,
        )
    names = [Path(table).name for table in tables]
    configuration = {
        "data": names[0] if len(names) == 1 else names,
        **all_given(described),
        "model": model or DEFAULT_MODEL,
        "replicates": system.about["bootstrap"],
    }
    if "mates" in system.about:
        configuration["mates"] = mates
    if same_labels is not None:
        configuration["same_labels"] = same_labels
    system = replace(system, about={**system.about, "configuration": configuration})
    with show_progress() as progress:
        progress.step("writing the system", "", 0.0)
        system.save(out, replace=force)
    say_prose(describe_training(system))
    if (best := cheaper_rival(system)) is not None:
        again = command_line(
            "train", *tables, **all_given(described), model=best, replicates=replicates, seed=seed or None,
            mates=None if mates == "as-in-table" else mates, same_labels=same_labels, private=private or None, out=str(out),
            force=True,
        )  # fmt: skip
        say(f"\nTo train {best} instead: {again}")
    say(f"\nSystem:  {out}\nSHA-256: {system.sha256}\n         Keep it in the laboratory's archive.")


UPDATE_READING = tuple(name for name in READING if name not in AS_TRAINED)


@reads_table(*UPDATE_READING)
def update(
    system: SystemFile,
    more: Annotated[
        list[str],
        typer.Argument(help="Further measurements: CSV or .xlsx files, or named data sets.", metavar="TABLE…"),
    ],
    reading: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"The system file to write: NAME{SYSTEM_ENDING}, with a report beside it, NAME-update.html and .json. "
            "Default: that of SYSTEM with -2, -3, … behind its name."
        ),
    ] = None,
    background: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="A file that SYSTEM was trained on, or a folder that holds some; may be given several times. The folder of "
            "SYSTEM and the working folder are looked into as well.",
        ),
    ] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="REPORT",
            help="A report of a past case, or a folder of them, to evaluate by both systems; may be given several times.",
        ),
    ] = None,
    same_labels: SameLabels = None,
    as_json: AsJson = False,
    require_signature: Signed = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the system file and its report.")] = False,
) -> None:
    """Give a system more background: train it afresh on the old and the new measurements, and report what changed.

    Model, settings and seed are those of SYSTEM, which stays as it is. It holds no measurements: those that it was trained on
    are read again from their files, which are found by their SHA-256.
    """
    place = out or _next_name(system)
    page = place.with_name(f"{place.stem}-update.html")
    require_place(place, (SYSTEM_ENDING,), (system, *map(Path, more)), force=force)
    for beside in (page, page.with_suffix(".json")):
        if beside.exists() and not force:
            raise LindleyError(f"{beside} is there already. Give another name with --out, or --force to replace it.")
    require_files([system], more, require_signature, old_robust=True)
    from lindley.pages.case_record import read_report, reports_in  # brings torch
    from lindley.system.system import System, load
    from lindley.system.update import grown_background, retrained

    old = load(system, signed_by=require_signature, old_robust=True)
    if cases and not old.computes:
        raise LindleyError(
            f"--cases: past cases are evaluated by both systems, and {system} holds the robust model of lindley 0.2.0 or "
            "older, which this version does not compute. Leave --cases out."
        )
    described = described_tables(more, reading, UPDATE_READING)
    reading = all_given(described)
    reports = reports_in(cases or ())
    for report in reports:
        try:
            read_report(report)  # tells what is wrong with it before anything is computed
        except LindleyError as error:
            raise LindleyError(f"--cases {report}: {error}") from error
    table = grown_background(
        old,
        more,
        background=[*(background or ()), system.parent],
        same_labels=same_labels,
        **{name.removesuffix("_column"): value for name, value in reading.items() if name != "no_profile"},
    )
    table = replace(table, findings=(*table.findings, *(note for each in described for note in each.noted)))
    tell_findings(table)
    with show_progress() as progress:
        made = retrained(old, table, progress.step)

    from lindley.pages.case_words import describe_training
    from lindley.pages.update_page import Update, past_cases, update_json, write_update

    with show_progress() as progress:
        progress.step("computing past cases again", "", 0.0)
        new = System.from_bytes(made.to_bytes(), str(place))
        changed = Update(old, new, past_cases(reports, old, new))
        progress.step("writing the system", "", 0.9)
        made.save(place, replace=force)
        progress.step("drawing the report", "", 0.95)
        write_update(changed, page)
    if as_json:
        say_json(update_json(changed), indent=1)
        return
    say_prose(describe_training(new) + "\n")
    for section in changed.sections():
        print_table(section.title, section.head, section.rows, section.how, names=section.names)
    for remark in changed.remarks:
        warn(remark, "note")
    say_prose("\n".join(changed.conclusions))
    say(f"\nSystem:  {place}\nSHA-256: {new.sha256}\n         Keep it in the laboratory's archive.\nReport:  {page}")


def _next_name(system: Path) -> Path:
    """A name beside a system that no file has: glass-2 of glass, glass-3 of glass-2."""
    stem, _, number = system.stem.rpartition("-")
    stem, number = (stem, number) if stem and number.isdecimal() else (system.stem, "1")
    names = (system.with_name(f"{stem}-{count}{SYSTEM_ENDING}") for count in itertools.count(int(number) + 1))
    return next(name for name in names if not name.exists())


def info(
    system: SystemFile,
    require_signature: Signed = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a system is: its model, features, training data and validation, and what the file gives away."""
    require_files([system], (), require_signature)
    from lindley.casework.case import system_facts  # brings torch
    from lindley.pages.case_words import describe_system
    from lindley.system.signature import signed_with
    from lindley.system.system import load

    loaded = load(system, signed_by=require_signature)
    if as_json:
        say_json(system_facts(loaded))
    else:
        say_prose(describe_system(loaded, None if require_signature else signed_with(system)))


def keys(
    name: Annotated[Path, typer.Argument(help="NAME.private.pem and NAME.public.pem are written.")],
) -> None:
    """Make a pair of keys: 'lindley sign' signs with the private one, and the public one checks it.

    Needs the extra 'signing'.
    """
    from lindley.system.signature import make_keys

    private, public = make_keys(name)
    say(
        f"Private key: {private}\n             Signs systems. Keep it where nobody else can read it, and not beside them."
        f"\nPublic key:  {public}\n             Give it to everybody who evaluates cases: --require-signature {public.name}"
    )


def sign(
    system: SystemFile,
    key: Annotated[Path, typer.Option(help="The private key: NAME.private.pem, as 'lindley keys' writes it.")],
) -> None:
    """Sign a system: SYSTEM.sig is written beside it, for --require-signature. The system stays as it is.

    Needs the extra 'signing'.
    """
    require_files([system], ())
    from lindley.system.header import read_system
    from lindley.system.signature import sign as sign_system
    from lindley.system.system import System  # brings torch

    data = read_system(system)
    loaded = System.from_bytes(data, str(system))
    place, fingerprint = sign_system(data, system, key)
    say(f"Signature: {place}\nKey:       {fingerprint}\nSHA-256:   {loaded.sha256}")
