"""`mrtuner deploy lambda`: what AWS needs to run the viewer without a server."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.serve import first_line
from mrtuner.errors import UsageError


@options.command("lambda")
@click.option(
    "--dir", "--store", "place", required=True, metavar="s3://BUCKET/PREFIX",
    help="Where recorders publish the history.",
)  # fmt: skip
@options.path_option(
    "--password-file", "FILE", "File whose first line is the password that the page asks for.",
    required=True,
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR",
    help="Directory to write to; what was written there before is replaced.",
)  # fmt: skip
@click.option(
    "--arch", type=click.Choice(["arm64", "x86_64"]), default="arm64", show_default=True,
    help="Processor of the functions.",
)  # fmt: skip
@click.option(
    "--python", type=click.Choice(["3.12", "3.13", "3.14"]), default="3.13",
    show_default=True, help="Version of Python of the functions.",
)  # fmt: skip
@click.option(
    "--kms-key", metavar="ARN", help="KMS key that encrypts the history, if it is not S3's own."
)
@options.json_option
def command(
    place: str, password_file: Path, out: Path, arch: str, python: str, kms_key: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write what AWS needs to run the viewer as a Lambda function.

    \b
    Examples:
      mrtuner deploy lambda --dir s3://company-history/postgres \\
        --password-file password --out viewer
      mrtuner deploy lambda --dir s3://company-history/postgres \\
        --password-file password --out viewer --arch x86_64 --python 3.14

    It writes a SAM template, the functions' package, the static site and a README with the few
    commands that deploy them. It does not call AWS.
    """
    prerequisites.require("argon2", "duckdb", "starlette")
    from mrtuner.documents import as_builtins
    from mrtuner.history.store.s3 import place_of
    from mrtuner.units import pretty_bytes
    from mrtuner.web.authentication import hash_of
    from mrtuner.web.document import Deployed
    from mrtuner.web.serverless.deployment import Deployment, write

    if kms_key is not None and not kms_key.startswith("arn:"):
        raise UsageError("--kms-key is not an ARN", "Give the key's ARN: the policy needs it.")
    made = Deployment(
        place=place_of(place), password_hash=hash_of(first_line(password_file)), python=python,
        architecture=arch, kms_key=kms_key,
    )  # fmt: skip
    size = write(made, out)
    told = Deployed(
        directory=str(out), history=str(made.place), python=python, architecture=arch, bytes=size
    )
    lines = [
        f"{out} contains the template, the package ({pretty_bytes(size)}) and the site; "
        f"{out / 'README.md'} names the commands"
    ]
    terminal.answer(as_builtins(told), lines, as_json)
