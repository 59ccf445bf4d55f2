"""`mrtuner failover self-test`: predicted against measured, on this kernel."""

from __future__ import annotations

import click

from mrtuner.cli.common import exit_codes, options, terminal


@options.command("self-test")
@click.option(
    "--whole",
    is_flag=True,
    help="Run every case of the documentation, which takes about 2 minutes.",
)
@options.json_option
@click.pass_context
def command(ctx: click.Context, /, whole: bool, as_json: bool) -> None:
    """Compare some of the predictions with this machine's kernel, in about 7 s and without root.

    \b
    Examples:
      mrtuner failover self-test
      mrtuner failover self-test --whole
      mrtuner failover self-test --json

    Runs a client, a router and a server in temporary network namespaces; the router drops all
    packets. The machine is not changed, and nothing is left behind. The exit code is 1 if a hang is
    more than 0.1 s outside its band: then do not trust the predictions for this kernel.
    """
    from mrtuner.failover.selftest import cases, run

    terminal.print_note(f"measuring, about {'2 min' if whole else '7 s'} ...")
    with terminal.sigterm_as_interrupt():
        done = run.run(cases.WHOLE if whole else (cases.SHORT,))
    if as_json:
        from mrtuner.failover.selftest.document import selftest_document

        terminal.document(selftest_document(done))
    else:
        terminal.print_lines(done.lines())
    if not done.fits:
        ctx.exit(exit_codes.FAILED)
