"""The Dockerfile that the mission begins with, at a small scale, and its base image.

The field notes (section 5) have the megabytes, not the file: 72 of source, 28 of gems, 15 of
assets, and some 600 of logs and history beside them; layers of 70, 100 and 15 were pushed. The
file here makes such layers. Its base has stand-ins for `useradd`, `bundle` and `rake`, which need
no network.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from machine import program

#: Stands for a megabyte of the seed [bytes].
UNIT = 4_096
SOURCE, GEMS, ASSETS, LOGS, HISTORY = (UNIT * megabytes for megabytes in (72, 28, 15, 500, 100))
BASE = "localhost/ruby"
RECIPE = f"""FROM {BASE}
ENV LANG=C.UTF-8
RUN useradd app
ADD . /srv/app
WORKDIR /srv/app
RUN bundle install --path vendor/bundle && chown -R app:app /srv/app
USER app
RUN rake assets:precompile
CMD ["bundle", "exec", "puma"]
"""
_APPLETS = ("sh", "cat", "chown", "cp", "echo", "find", "mkdir", "ls", "rm", "true")
_TOOLS = {
    "useradd": 'echo "$1:x:1000:1000::/:/bin/sh" >> /etc/passwd\necho "$1:x:1000:" >> /etc/group\n',
    "bundle": "test -f Gemfile.lock\nmkdir -p vendor/bundle\ncp -r /lib/gems vendor/bundle/gems\n",
    "rake": "test -f Rakefile\nmkdir -p public/assets\ncp -r /lib/assets public/assets/all\n",
}


def seed(root: Path, *, rubbish: bool = True) -> Path:
    """Make the application: most of its source is pictures, which seldom change."""
    dice = random.Random(1)
    sizes = {
        "app/models.rb": UNIT, "app/views.rb": UNIT, "lib/tasks.rb": UNIT,
        "public/pictures": SOURCE - 5 * UNIT, "config/routes.rb": UNIT, "Rakefile": UNIT,
    }  # fmt: skip
    if rubbish:
        sizes |= {"log/production.log": LOGS, ".git/objects/pack/one.pack": HISTORY}
    for name, size in sizes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(size))
    (root / "Gemfile").write_text('gem "rails"\n')
    (root / "Gemfile.lock").write_text("GEM\n  specs:\n    rails (8.0.0)\n")
    (root / "Dockerfile").write_text(RECIPE)
    return root


def stock(root: Path) -> None:
    """Make what the stand-ins for `bundle` and `rake` copy: one file each."""
    dice = random.Random(2)
    (root / "gems").write_bytes(dice.randbytes(GEMS))
    (root / "assets").write_bytes(dice.randbytes(ASSETS))


def base(root: Path, stocked: Callable[[Path], None] = stock) -> Path:
    """Make the directory of the base image; its RUN leaves the builder's own files there."""
    for name in ("bin", "lib", "etc", "tmp", "srv"):
        (root / "files" / name).mkdir(parents=True)
    shutil.copy(program("busybox"), root / "files/bin/busybox")
    for name in _APPLETS:
        (root / "files/bin" / name).symlink_to("busybox")
    for name, script in _TOOLS.items():
        path = root / "files/bin" / name
        path.write_text(f"#!/bin/sh\nset -e\n{script}")
        path.chmod(0o755)
    stocked(root / "files/lib")
    (root / "files/etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (root / "files/etc/group").write_text("root:x:0:\n")
    (root / "Dockerfile").write_text("FROM scratch\nCOPY files /\nENV PATH=/bin\nRUN true\n")
    return root
