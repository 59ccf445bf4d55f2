"""unicorn: a configuration file.

Source: unicorn's documentation, Unicorn::Configurator: worker_processes, preload_app.
"""

from __future__ import annotations

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application, ApplicationFormat


def write(application: Application) -> str:
    """Return unicorn.rb."""
    application.check_server(("unicorn",), FORMAT.name)
    return (
        f"# {one_line(application.title)}\n"
        f"worker_processes {application.workers} # of each of {application.pods} pods\n"
        "preload_app true\n"
    )


FORMAT = ApplicationFormat(name="unicorn", summary="config/unicorn.rb", write=write)
