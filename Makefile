# Two commands do everything on a fresh machine with git, make and Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: docs demo test test-numpy sanitize check fuzz model bounds mutants drill drill-net drill-newest walk bench wheel wheelhouse installs lowest clean

demo: .venv/.report
	$(BIN)/python -m fedspca.demo build/demo.html

test: .venv/.test # two workers, so one BLAS thread each
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

check: .venv/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Altered inputs to every decoder and to a site's door, for so long: make fuzz SECONDS=600. A test does it for seconds.
SECONDS ?= 60
fuzz: .venv/.test
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz/decoders.py $(SECONDS)

# More orders of faults in the protocol of letters and masks than the tests try: make model EXAMPLES=500.
EXAMPLES ?= 100
model: .venv/.test
	FEDSPCA_MODEL_EXAMPLES=$(EXAMPLES) OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/federation/test_faults.py

# The C files under address and undefined-behaviour sanitizers, by their own tests: needs gcc or clang with its runtimes.
sanitize: .venv/.test
	rm -rf build/sanitized && mkdir -p build && cp -r src build/sanitized
	cc -g -O1 -std=c11 -fPIC -fsanitize=address,undefined -fno-sanitize-recover -Wall -Wextra -Werror -shared -o build/sanitized/fedspca/linalg/compiled/_kernels.so src/fedspca/linalg/compiled/*.c -lm
	LD_PRELOAD="$$(cc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/sanitized OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -q -p no:cacheprovider tests/linalg/compiled

# The tests of the mathematics and the solvers without compiled code, as on a machine that has no compiler.
test-numpy: .venv/.test
	FEDSPCA_COMPILED=0 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/linalg tests/solvers tests/estimators/test_exact.py

# More small problems whose bound is compared with all supports than the tests try: 2,100.
bounds: .venv/.test
	FEDSPCA_BOUND_EXAMPLES=2100 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/linalg/cardinality/test_proof.py

# Do the tests of a module notice bugs in it? make mutants WHICH=linalg/certificate. Survivors are in tests/mutants.
mutants: .venv/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.mutants $(WHICH)

# What needs more than Python: the report in a browser (Debian's chromium and chromium-driver), and Flower's processes.
drill: .venv/.test
	$(PIP) install -c constraints.txt --group drill -e '.[simulation]'
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider -n 2 --dist loadfile --durations=15 --ignore=drills/net --ignore=drills/newest drills tests/flower tests/study

# Studies between network namespaces of this machine, with NAT, a proxy, cut, slow and lossy lines, wrong clocks: Linux, root,
# iproute2, nftables, faketime. They are skipped, with the reason, where such namespaces cannot be made.
# Some of them: make drill-net CHOSEN="nat or lost".
CHOSEN ?=
drill-net: .venv/.test
	$(PIP) install -c constraints.txt --group drill -e '.[flower,privacy]'
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider -rs --durations=15 -k "$(CHOSEN)" drills/net

# The newest release of Flower that pyproject.toml allows, beside the pinned one and mixed with it. It is installed
# without its dependencies: those of the pinned release serve both.
drill-newest: .venv/.test
	$(PIP) install -c constraints.txt --group drill -e '.[flower,privacy]'
	$(PIP) install --upgrade --no-deps --target build/flower-newest "$$(sed -n 's/^flower = \["\(flwr[^"]*\)".*/\1/p' pyproject.toml)"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider -rs --durations=5 -k "$(CHOSEN)" drills/newest

# From the invitation to the report between such namespaces, with the commands that people type and how long it took.
walk: .venv/.test
	$(PIP) install -c constraints.txt -e '.[flower,privacy]'
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=drills $(BIN)/python drills/walk.py

# Parts of it: make bench WHICH="machine W1 W4". One BLAS thread, so that ratios do not hang on how work is split.
bench: .venv/.bench
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks $(WHICH)

# The documentation as a site, in build/docs; every example of the gallery is run, and any warning ends it.
docs: .venv/.test
	$(PIP) install -c constraints.txt --group docs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

# The wheel, built, installed into an environment of its own, and run away from the repository. Where there is no C
# compiler, a wheel of Python alone is built instead: that is tried too.
wheel: .venv/.check
	rm -rf dist build/wheel-env build/pure
	CC=/nonexistent $(BIN)/python -m build --wheel --outdir build/pure . >/dev/null
	ls build/pure/*-py3-none-any.whl
	$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	$(PYTHON) -m venv build/wheel-env
	build/wheel-env/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt dist/*.whl
	cd build/wheel-env && bin/python -I -m fedspca.demo

# Everything that a site needs, for a machine without internet: copy dist/wheelhouse there, and install from it.
WHAT ?= flower,privacy
wheelhouse: .venv/.check
	rm -rf dist/wheelhouse build/offline-env
	$(BIN)/python -m build --wheel --outdir dist/wheelhouse . >/dev/null
	$(PIP) wheel -c constraints.txt -w dist/wheelhouse "$$(ls dist/wheelhouse/fedspca-*.whl)[$(WHAT)]"
	$(PYTHON) -m venv build/offline-env
	build/offline-env/bin/python -m pip --disable-pip-version-check --quiet install --no-index --find-links dist/wheelhouse "fedspca[$(WHAT)]"
	cd build/offline-env && bin/fedspca --version
	@echo "There: pip install --no-index --find-links wheelhouse 'fedspca[$(WHAT)]'"

# Each extra alone, without the constraints file, as a person installs it who follows the README; then with the oldest
# versions that pyproject.toml allows. Parts of it: make installs EXTRAS="cli privacy".
installs: .venv/.check
	.ci/installs $(EXTRAS)

lowest: .venv/.check
	.ci/installs lowest $(EXTRAS)

clean:
	rm -rf .venv dist build

.venv/.made: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedspca needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(PIP) install --upgrade -c constraints.txt pip
	@touch $@

.venv/.core: .venv/.made pyproject.toml hatch_build.py $(wildcard src/fedspca/linalg/compiled/*.[ch])
	$(PIP) install -c constraints.txt -e .
	@touch $@

.venv/.report: .venv/.core
	$(PIP) install -c constraints.txt -e '.[report]'
	@touch $@

.venv/.test: .venv/.report
	$(PIP) install -c constraints.txt --group test
	@touch $@

.venv/.bench: .venv/.core
	$(PIP) install -c constraints.txt --group bench
	$(PIP) install -c constraints.txt --no-deps scanpy inmoose # for data sets inside them: W7, and effects
	@touch $@

.venv/.check: .venv/.test
	$(PIP) install -c constraints.txt --group check
	@touch $@
