"""`rdstune policy`: the IAM permissions that a command needs, and no more."""

from __future__ import annotations

import click

from mrtuner.cli.common import options, terminal


@options.command("policy")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND")
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    help="Allow the actions in this region only; may be repeated.",
)
@click.option("--account", default="*", metavar="ID", help="AWS account, twelve digits.")
@click.option(
    "--instance", default="*", metavar="ID",
    help="Allow this instance or cluster only; orders* matches a cluster and its members.",
)  # fmt: skip
@click.option("--group", default="*", metavar="NAME", help="Allow this parameter group only.")
@click.option(
    "--from-region", "source", default="*", metavar="REGION",
    help="Region that snapshots are copied from.",
)  # fmt: skip
@click.option(
    "--to-region",
    "destination",
    default="*",
    metavar="REGION",
    help="Region that snapshots are copied to.",
)
@click.option(
    "--kms-key", metavar="KEY", help="KMS key of the copied snapshots, or of a history on S3."
)
@click.option("--dir", "place", metavar="s3://BUCKET/PREFIX", help="Allow this history on S3 only.")
@click.option(
    "--without", multiple=True, metavar="OPTION",
    help="Leave out what only this option of the command needs, such as --without=--keep; may be "
    "repeated.",
)  # fmt: skip
@options.json_option
def command(
    words: tuple[str, ...],
    regions: tuple[str, ...],
    account: str,
    instance: str,
    group: str,
    source: str,
    destination: str,
    kms_key: str | None,
    place: str | None,
    without: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the least-privilege IAM policy for a command that calls AWS.

    \b
    Examples:
      rdstune policy audit
      rdstune policy apply --region eu-west-1 --account 123456789012 --instance shop
      rdstune policy snapshots copy --from-region eu-west-1 --to-region eu-central-1 \\
          --without=--kms-key
      rdstune policy diff > policy.json
      rdstune policy serve --dir s3://company-history/postgres --without=--kms-key

    Whatever you do not restrict is a * in the policy. Notes on single actions go to stderr.
    """
    from mrtuner.aws.iam_policy import Scope, policy
    from mrtuner.history.store.s3 import place_of

    history = place_of(place) if place else None
    scope = Scope(
        regions=regions,
        account=account,
        instance=instance,
        group=group,
        source=source,
        destination=destination,
        kms_key=kms_key,
        bucket=history.bucket if history else "*",
        prefix=history.prefix if history else "*",
    )
    made = policy(" ".join(words), scope, without)
    if as_json:
        from mrtuner.documents import convert
        from rdstune.fleet.document import PolicyDocument

        terminal.document(convert(made, PolicyDocument))
        return
    terminal.document(dict(made.document))
    for note in made.notes:
        terminal.print_note(f"note: {note}")
