# make demo     builds pmuscope, profiles a small service, prints where its time goes, writes a page
# make test     the tests of what make build builds, but for those that take long
# make test-full  all tests: also those that take long, of guests of another processor, of the fleet and of Python's tables
# make test-user  some of them as an ordinary user, who has no rights (takes root)
# make bench    time and CPU time compared with perf, and with the last result (10 minutes; BENCH=--quick: 3)
# make lint     formatting, clippy, documentation, licenses: no warning allowed
# make advisories  known faults of the crates that are used (takes cargo-deny and the network)
# make guest-aarch64  a static one for aarch64 guests of the lab
# make pmu-guest      the same for tests, built in less time
# make fleet-guest    what agents measure, for full tests in such a guest
# make build    target/release/pmuscope and libpmuscope_c.so, for regions in C programs
# make fleet    target/release/pmuscope-fleet, which pmuscope fleet runs: profiles of many machines
# make wheel    target/wheels: a wheel for pip, with the module and the program (WHEELS='aarch64-gnu x86_64-musl …')
# make test-python  the wheel in new virtual environments, notebooks too (PYTHONS='python3.11 python3.13')
# make demo-fleet  six recordings as six hosts: which functions use their CPUs, and what a version costs
# make install PREFIX=/usr/local   it, pmuscope-fleet if it is built, its library, manual pages, completions; uninstall takes them away.
#               DESTDIR= stands for the root; LIBDIR=, PYTHONDIR=, ZSHDIR= as a distribution has them
# make packages target/packages: static tarballs for x86-64 and aarch64, a .deb, SHA256SUMS
# make site     target/site: the documents as a web site that needs no network, with search (takes Sphinx)
# make screenshots  docs/images, from a recording made now (takes chromium)
# make install-deps  what the others need from the system, at once
#
# Each target installs what it needs: as root with apt-get, otherwise it says what is missing.

target := $(or $(CARGO_TARGET_DIR),target)

guest_aarch64 := aarch64-unknown-linux-musl
# Tests take the profile "guest", without a terminal's screens and the server of pages.
guest_profile := release
guest_features :=
guest_build := CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
	CFLAGS_aarch64_unknown_linux_musl='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0' \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
	cargo build --locked --target $(guest_aarch64)

# Crates that the front door does without: their dependencies take longer to build than all else.
beyond := agent compaction dataset delivery fleet measurements query store symbolization tables

.PHONY: build fleet wheel test-python need-wheel demo-fleet install uninstall packages doc advisories need-packages demo bench need-bench test test-full test-user lint install-deps guest-aarch64 pmu-guest fleet-guest site screenshots need-site need-screenshots need-guest-aarch64 need-build need-test need-full need-demo need-lint

# At once, so that what both need is compiled once.
build: need-build
	cargo build --locked --release -p pmuscope -p pmuscope-region-c

fleet: need-build
	cargo build --locked --release -p pmuscope-fleet

WHEELS ?=
PYTHONS ?=

wheel: need-wheel
	@scripts/wheel $(target)/wheels $(WHEELS)

test-python: need-wheel
	@scripts/test-python $(PYTHONS)

PREFIX ?= /usr/local
installer := PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' PYTHONDIR='$(PYTHONDIR)' \
	ZSHDIR='$(ZSHDIR)' scripts/install

# What was built before is installed: sudo make install builds nothing as root.
install:
	@[ -x $(target)/release/pmuscope ] && [ -f $(target)/release/libpmuscope_c.so ] || $(MAKE) build
	@fleet=$(target)/release/pmuscope-fleet; [ -x $$fleet ] || fleet=; \
		$(installer) $(target)/release/pmuscope --libraries $(target)/release $${fleet:+--fleet $$fleet}
	@[ -n "$(DESTDIR)" ] || echo "installed below $(PREFIX). To link with libpmuscope_c.so: sudo ldconfig"

uninstall:
	@$(installer) --remove

packages: need-packages
	scripts/package all

# The program for aarch64 guests of the lab, static: it also runs on any machine of that kind.
guest-aarch64: need-guest-aarch64
	$(guest_build) --profile $(guest_profile) $(guest_features)

# What agents measure, as a program of its own for guests with a PMU.
fleet-guest: need-guest-aarch64
	$(guest_build) --profile guest -p pmuscope-measurements --example measure

demo-fleet: need-demo build fleet
	@scripts/demo-fleet $(target)/release/pmuscope $(target)/demo-fleet

demo: need-demo build
	@scripts/demo $(target)/release/pmuscope $(target)/demo

# Ends with 1 if pmuscope has become slower than in the last result, compared with perf.
bench: need-bench build
	@scripts/bench $(target)/release/pmuscope $(BENCH)

site: need-site
	@scripts/site $(target)/site

screenshots: need-screenshots build
	@scripts/screenshots $(target)/release/pmuscope $(target)/demo

test: need-test
	@scripts/test --kernels x86_64=6.1 $(beyond:%=--exclude=pmuscope-%)

# What depends on rights, without any.
user_tests := doctor:: pmus:: recording:: rights:: stat:: tracefs::
test-user: need-test
	@scripts/bare --user scripts/test --test it -- $(user_tests)

# A test that takes long has a name that says so.
test-full: need-test need-full
	@PMUSCOPE_FULL=1 scripts/test --kernels x86_64=6.1,x86_64=6.12,aarch64=6.1

lint: need-lint
	cargo fmt --all --check
	$(lint_build) cargo clippy --locked --quiet --workspace --all-targets --all-features -- -D warnings
	$(MAKE) doc
	scripts/public-api
	scripts/type-names
	scripts/words
	scripts/licenses
	@$(MAKE) advisories

# Nothing is linked, so libFuzzer is not needed: a name for it saves compiling it.
lint_build := CUSTOM_LIBFUZZER_PATH=/libfuzzer.a

# Of crates that promise an API. In the others the compiler asks for documentation (missing_docs).
doc: need-build
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --locked --quiet --all-features --no-deps \
		--keep-going $(patsubst crates/%/public-api.txt,-p pmuscope-%,$(wildcard crates/*/public-api.txt))

# Of no use without the network, so no part of what must pass; said where it did not happen.
advisories:
	@if ! cargo deny --version >/dev/null 2>&1; then \
		echo "skipped: advisories: cargo-deny is not installed. Try: cargo install --locked cargo-deny"; \
	elif ! cargo deny fetch db; then \
		echo "skipped: advisories: their database cannot be fetched"; \
	else cargo deny check --disable-fetch advisories; fi

install-deps: need-test need-demo need-lint

# zstd is compiled from C, and Rust links through the C compiler.
need-build:
	@scripts/need gcc=cc libc6-dev=/usr/include/stdio.h
	@command -v cargo >/dev/null || { echo "missing: Rust's stable toolchain. See https://rustup.rs" >&2; exit 3; }

# zstd's C again, for another processor; Debian's headers know glibc's checks, musl does not.
need-guest-aarch64: need-build
	@scripts/need gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc \
		libc6-dev-arm64-cross=/usr/aarch64-linux-gnu/include/stdio.h qemu-system-arm=qemu-system-aarch64
	@rustup target list --installed | grep -q $(guest_aarch64) || rustup target add $(guest_aarch64)

# Static programs of two machines and a package of Debian.
need-packages: need-guest-aarch64
	@scripts/need dpkg=dpkg-deb xz-utils=xz binutils=strip python3=python3 tar=tar
	@rustup target list --installed | grep -q x86_64-unknown-linux-musl || rustup target add x86_64-unknown-linux-musl

# Tests compare with perf and man where they are installed, run guests, and programs in Python. One makes packages without
# the network, whose notices take the manifests of all crates.
need-test: need-build
	@cargo fetch --locked --quiet
	@scripts/need bash=bash xz-utils=xz python3=python3
	@scripts/need --optional linux-perf=perf man-db=man mandoc=mandoc g++=g++ qemu-system-x86=qemu-system-x86_64 \
		libc6-dbg=/usr/share/doc/libc6-dbg gdb=gdb python3-dbg=python3-dbg zsh=zsh fish=fish faketime=faketime

# Counter windows are tested in an emulated guest with a PMU, where its program can be built; else those tests are skipped.
# scripts/test fetches the kernels.
pmu-guest: need-build
	@if [ "$$(id -u)" = 0 ] || command -v aarch64-linux-gnu-gcc >/dev/null; then \
		$(MAKE) --no-print-directory guest-aarch64 guest_profile=guest guest_features=--no-default-features; fi

# Pages and pictures are opened in a browser. FLEET_GUEST=no leaves out what one test of the fleet needs, which takes minutes
# to build; that test says so.
need-full: pmu-guest
	@if [ "$(FLEET_GUEST)" = no ]; then :; \
	elif [ "$$(id -u)" = 0 ] || command -v aarch64-linux-gnu-gcc >/dev/null; then \
		$(MAKE) --no-print-directory fleet-guest; fi
	@scripts/need --optional chromium=chromium chromium-driver=chromedriver

need-wheel: need-build
	@scripts/need python3=python3
	@python3 -c 'import ensurepip, venv' 2>/dev/null || scripts/need --optional python3-venv=/usr/share/doc/python3-venv

need-demo: need-build

need-bench: need-build
	@scripts/need python3=python3
	@scripts/need --optional linux-perf=perf xz-utils=xz

need-screenshots: need-build
	@scripts/need chromium=chromium

need-site:
	@scripts/need python3-sphinx=/usr/bin/sphinx-build python3-myst-parser=/usr/share/doc/python3-myst-parser \
		furo=/usr/share/doc/furo

need-lint: need-build
	@scripts/need python3=python3
	@cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
