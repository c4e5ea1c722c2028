# make demo     builds pmuscope, records this machine while xz runs, prints the report
# make test     the tests (at most 10 minutes on 2 cores)
# make test-full  those that take long, which make test leaves out
# make lint     formatting and clippy, no warning allowed
# make guest-aarch64  a static one for aarch64 guests of the lab
# make pmu-guest      the same for tests, built in less time
# make build    target/release/pmuscope
# make install-deps  what the others need from the system, at once
#
# Each target installs what it needs: as root with apt-get, otherwise it says what is missing.

target := $(or $(CARGO_TARGET_DIR),target)

guest_aarch64 := aarch64-unknown-linux-musl
# Tests take the profile "guest".
guest_profile := release

# Nothing is linked, so libFuzzer is not needed: a name for it saves compiling it.
fuzz_clippy := CUSTOM_LIBFUZZER_PATH=/libfuzzer.a RUSTFLAGS='--cfg fuzzing' \
	cargo clippy --locked --quiet --manifest-path fuzz/Cargo.toml --target-dir $(target)/fuzz

.PHONY: build demo test test-full lint install-deps guest-aarch64 pmu-guest need-guest-aarch64 need-build need-test need-guests need-full need-demo need-lint

build: need-build
	cargo build --locked --release

# The program for aarch64 guests of the lab, static: it also runs on any machine of that kind.
guest-aarch64: need-guest-aarch64
	CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
	CFLAGS_aarch64_unknown_linux_musl='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0' \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_PROFILE_RELEASE_LTO=off \
	cargo build --locked --profile $(guest_profile) --target $(guest_aarch64)

demo: need-demo build
	@scripts/demo $(target)/release/pmuscope $(target)/demo

test: need-test need-guests pmu-guest
	@scripts/test

# A test that takes long has a name that says so.
test-full: need-test need-guests need-full
	@PMUSCOPE_FULL=1 scripts/test --tests ::full_

lint: need-lint
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --quiet --workspace --all-targets --all-features -- -D warnings
	$(fuzz_clippy) -- -D warnings

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

# Tests compare with perf and man where they are installed, run guests, and programs in Python.
need-test: need-build
	@scripts/need bash=bash xz-utils=xz
	@scripts/need --optional linux-perf=perf man-db=man qemu-system-x86=qemu-system-x86_64 python3=python3 \
		gdb=gdb python3-dbg=python3-dbg

# The kernel that guests run: a test would have to wait for the network.
need-guests: need-build
	@scripts/need --kernels x86_64=6.1

# Windows are tested in a guest with a PMU, where its program can be built; else those tests are skipped.
pmu-guest: need-build
	@if [ "$$(id -u)" = 0 ] || command -v aarch64-linux-gnu-gcc >/dev/null; then \
		$(MAKE) --no-print-directory guest-aarch64 guest_profile=guest && \
		scripts/need --kernels aarch64=6.1; fi

# Pages and pictures are opened in a browser; guests run further kernels.
need-full: pmu-guest
	@scripts/need --optional chromium=chromium chromium-driver=chromedriver
	@scripts/need --kernels x86_64=6.12 aarch64=6.1

need-demo: need-build
	@scripts/need xz-utils=xz

need-lint: need-build
	@cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
