"""The commands of `mrtuner deploy`: one file per place to deploy to."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

command = Commands(
    "deploy",
    {"lambda": "Write what AWS needs to run the viewer as a Lambda function."},
    package="mrtuner.cli.deploy",
    help="""Deploy the viewer to AWS Lambda.

    \b
    Examples:
      mrtuner deploy lambda --dir s3://company-history/postgres \\
        --password-file password --out viewer
    """,
)
