"""Systems: ``train`` makes one, ``info`` tells what it is, ``keys`` and ``sign`` vouch for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lindley.cli.console import say, say_json, say_prose, show_progress
from lindley.cli.options import (
    CALIBRATIONS,
    MATES,
    MODELS,
    MOST,
    MOST_SEED,
    NEURAL,
    SYSTEM_ENDING,
    AsJson,
    SameLabels,
    Signed,
    SystemFile,
    Tables,
    load_tables,
    read_mates,
    reads_table,
    require_place,
)

__all__ = ["info", "keys", "sign", "train"]


@reads_table()
def train(
    tables: Tables,
    out: Annotated[Path, typer.Option(help=f"The system file to write: NAME{SYSTEM_ENDING}.")],
    reading: dict[str, Any],
    model: Annotated[
        str, typer.Option(help=f"{MODELS}, or a neural {NEURAL}; {CALIBRATIONS} behind that calibrate it afterwards.")
    ] = "robust",
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
    from lindley.system.names import ModelName

    kind = ModelName.parse(model).kind
    data = load_tables(tables, reading, same_labels)

    from lindley.pages.case_words import describe_training
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
        **reading,
        "model": model,
        "replicates": system.about["bootstrap"],
    }
    if "mates" in system.about:
        configuration["mates"] = mates
    if same_labels is not None:
        configuration["same_labels"] = same_labels
    system = replace(system, about={**system.about, "configuration": configuration})
    system.save(out, replace=force)
    say_prose(describe_training(system))
    say(f"\nSystem:  {out}\nSHA-256: {system.sha256}\n         Keep it in the laboratory's archive.")


def info(
    system: SystemFile,
    require_signature: Signed = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a system is: its model, features, training data and validation, and what the file gives away."""
    from lindley.casework.case import system_facts
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
    from lindley.system.signature import sign as sign_system
    from lindley.system.system import System, read_system

    data = read_system(system)
    loaded = System.from_bytes(data, str(system))
    place, fingerprint = sign_system(data, system, key)
    say(f"Signature: {place}\nKey:       {fingerprint}\nSHA-256:   {loaded.sha256}")
