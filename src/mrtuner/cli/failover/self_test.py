"""`mrtuner failover self-test`: predicted against measured, on this kernel."""

from __future__ import annotations

import click

from mrtuner.cli import exit_codes, options, terminal


@options.command("self-test")
@click.option(
    "--whole", is_flag=True, help="Run the whole grid of the documentation, about 2 minutes."
)
@options.json_option
@click.pass_context
def command(ctx: click.Context, /, whole: bool, as_json: bool) -> None:
    """Hold a part of the predictions against this machine's kernel: some 7 s, no root needed.

    \b
    Examples:
      mrtuner failover self-test
      mrtuner failover self-test --whole
      mrtuner failover self-test --json

    A client, a router and a server in network namespaces of our own; the router drops everything.
    Nothing of the machine changes and nothing is left. Ends with 1 when a hang lies outside its
    band by more than 0.1 s: then do not trust the predictions for this kernel.
    """
    from mrtuner.failover.selftest import cases, run

    terminal.print_note(f"measuring, some {'2 min' if whole else '7 s'} ...")
    with terminal.sigterm_as_interrupt():
        done = run.run(cases.WHOLE if whole else (cases.SHORT,))
    if as_json:
        from mrtuner.failover.selftest.document import selftest_document

        terminal.document(selftest_document(done))
    else:
        for line in done.lines():
            terminal.print_line(line)
    if not done.fits:
        ctx.exit(exit_codes.FAILED)
