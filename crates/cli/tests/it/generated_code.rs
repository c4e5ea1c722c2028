//! Names of code that is generated at run time, as perf maps and jitdumps describe it.

use std::path::Path;
use std::process::Command;

use crate::gone_files::{MOSTLY, share, share_of};
use crate::harness::{
    Scratch, Started, need_c_compiler, need_mount_namespaces, need_root, skip_unless,
};
use crate::recording::need_clock;

/// Forks a worker that runs the code that it generated and described before.
const FORKED: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* mov rcx, rdi; loop: dec rcx; jnz loop; ret */
static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
int main(int n, char **args)
{
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof code);
	char name[64];
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %lx code_of_parent\n", (long)page, sizeof code);
	fclose(map);
	puts(name);
	fflush(stdout);
	if (fork()) return wait(0) < 0;
	for (clock_t end = clock() + atof(args[1]) * CLOCKS_PER_SEC; clock() < end;) ((void (*)(long))page)(3000000);
}
"#;

#[test]
fn forked_workers_have_the_names_of_their_parents_map() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the code is x86-64's");
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("fork.c"), FORKED).unwrap();
    scratch.run("cc", ["-O1", "-w", "-o", "fork", "fork.c"]).exits(0);
    let outcome = scratch.pmuscope(["record", "-e", "cpu-clock", "-o", "x.data", "./fork", "0.3"]);
    let whole = share(&scratch, "x.data", "fork", "code_of_parent");
    // Attached to later: parent and child exist when the recording begins.
    let mut command = Command::new("./fork");
    let forked = Started::of(command.arg("60").current_dir(scratch.path(".")));
    let children = format!("/proc/{0}/task/{0}/children", forked.pid());
    let child = || std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
    forked.wait_until(|| !child().is_empty());
    let pids = format!("{},{}", forked.pid(), child());
    let record = ["record", "-p", &pids, "-e", "cpu-clock", "-o", "y.data", "--", "sleep", "0.3"];
    scratch.pmuscope(record).exits(0);
    let attached = share(&scratch, "y.data", "fork", "code_of_parent");
    scratch.run("kill", [&child()]).exits(0);
    let printed = forked.printed();
    for map in
        outcome.stdout.lines().chain(printed.lines()).filter(|line| line.starts_with("/tmp/perf-"))
    {
        std::fs::remove_file(Path::new(map)).unwrap();
    }
    assert!(whole >= MOSTLY && attached >= MOSTLY, "{whole} {attached}");
}

/// Writes code to memory that also has a name, as runtimes do that never have pages both writable and executable.
const GENERATED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* mov rcx, rdi; loop: dec rcx; jnz loop; ret */
static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
int main(int n, char **args)
{
	int file = strcmp(args[2], "memfd") ? open(args[2], O_CREAT | O_RDWR, 0700) : memfd_create("any name", 0);
	ftruncate(file, 4096);
	char *to = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	char *from = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	memcpy(to, code, sizeof code);
	unlink(args[2]);
	char name[64];
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %lx generated_code\n", (long)from, sizeof code);
	fclose(map);
	for (clock_t end = clock() + atof(args[1]) * CLOCKS_PER_SEC; clock() < end;) ((void (*)(long))from)(3000000);
	puts(name);
}
"#;

#[test]
fn generated_code_in_named_memory_has_the_names_of_its_map() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the code is x86-64's");
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("jit.c"), GENERATED).unwrap();
    scratch.run("cc", ["-O1", "-w", "-o", "jit", "jit.c"]).exits(0);
    for memory in ["memfd", "./unlinked", "/dev/shm/pmuscope-generated-code"] {
        let record = ["record", "-e", "cpu-clock", "-o", "x.data", "./jit", "0.3", memory];
        let outcome = scratch.pmuscope(record);
        let share = share(&scratch, "x.data", "jit", "generated_code");
        let map = outcome.stdout.lines().find(|line| line.starts_with("/tmp/perf-")).unwrap();
        std::fs::remove_file(Path::new(map)).unwrap();
        assert!(share >= MOSTLY, "{memory}: {share}");
    }
}

/// Puts a second function where the first was, as runtimes do that throw code away, and writes a jitdump of both.
const REUSED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* mov rcx, rdi; loop: dec rcx; jnz loop; ret */
static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static int dump;
static void load(char *at, const char *name, uint64_t number)
{
	uint32_t size = 16 + 40 + strlen(name) + 1 + sizeof code, front[2] = {0, size};
	uint64_t time = now(), body[5] = {(uint64_t)getpid() << 32 | getpid(), (uint64_t)at, (uint64_t)at, sizeof code, number};
	memcpy(at, code, sizeof code);
	write(dump, front, 8); write(dump, &time, 8); write(dump, body, 40);
	write(dump, name, strlen(name) + 1); write(dump, code, sizeof code);
}
int main(int n, char **args)
{
	char name[64], *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snprintf(name, sizeof name, "jit-%d.dump", getpid());
	dump = open(name, O_CREAT | O_RDWR, 0600);
	uint32_t head[6] = {0x4a695444, 1, 40, 62, 0, getpid()};
	uint64_t times[2] = {now(), 0};
	write(dump, head, 24); write(dump, times, 16);
	mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0);
	for (int phase = 0; phase < 2; phase++) {
		load(at, phase ? "code_of_second_phase" : "code_of_first_phase", phase);
		for (clock_t end = clock() + atof(args[1]) * CLOCKS_PER_SEC; clock() < end;) ((void (*)(long))at)(300000);
	}
}
"#;

#[test]
fn code_memory_that_is_used_again_has_the_name_of_its_time() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the code is x86-64's");
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("reuse.c"), REUSED).unwrap();
    scratch.run("cc", ["-O1", "-w", "-o", "reuse", "reuse.c"]).exits(0);
    scratch.pmuscope(["record", "-e", "cpu-clock", "-o", "x.data", "./reuse", "0.3"]).exits(0);
    let phases = ["code_of_first_phase", "code_of_second_phase"];
    let shares = phases.map(|phase| share(&scratch, "x.data", "reuse", phase));
    assert!(shares.iter().all(|share| (0.35..0.65).contains(share)), "{shares:?}");
    let listed = scratch.pmuscope(["script", "-i", "x.data", "-F", "sym"]).exits(0).stdout.clone();
    let counted = phases.map(|phase| listed.matches(phase).count());
    assert!(counted.iter().all(|&count| count >= 100), "{counted:?}");
    // The first half of the samples is of the first phase, and none of the second.
    assert!(listed.find(phases[1]) > listed.rfind(phases[0]), "{counted:?}");
}

/// Calls native code without frame pointers from generated code with them.
const CALLED: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
volatile long sum;
/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
__attribute__((noinline)) void native_work(void) { for (int i = 0; i < 300000; i++) sum += i; }
__attribute__((noinline)) void native_caller(void (*generated)(void (*)(void))) { generated(native_work); sum++; }
int main(int n, char **args)
{
	char name[64], *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof code);
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %lx generated_caller\n", (long)page, sizeof code);
	fclose(map);
	for (clock_t end = clock() + atof(args[1]) * CLOCKS_PER_SEC; clock() < end;) native_caller((void *)page);
	puts(name);
}
"#;

#[test]
fn stacks_go_on_through_generated_code_with_frame_pointers() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the code is x86-64's");
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("called.c"), CALLED).unwrap();
    scratch.run("cc", ["-O2", "-fomit-frame-pointer", "-w", "-o", "called", "called.c"]).exits(0);
    let record = ["record", "--call-graph", "dwarf", "-e", "cpu-clock", "-o", "x.data"];
    let outcome = scratch.pmuscope(record.iter().chain(&["./called", "0.3"]));
    scratch.pmuscope(["report", "-i", "x.data", "-o", "x.folded"]).exits(0);
    let map = outcome.exits(0).stdout.lines().find(|line| line.starts_with("/tmp/perf-")).unwrap();
    std::fs::remove_file(Path::new(map)).unwrap();
    let folded = std::fs::read_to_string(scratch.path("x.folded")).unwrap();
    let samples = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let all: u64 = folded.lines().map(samples).sum();
    let chain = "main;native_caller;generated_caller;native_work";
    let whole: u64 = folded.lines().filter(|line| line.contains(chain)).map(samples).sum();
    assert!(whole as f64 >= MOSTLY * all as f64, "{whole} of {all}\n{folded}");
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(0).prints("by frame pointer in generated code");
}

/// Program that runs generated code, with a description unless an argument forbids it.
const IN_CONTAINER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* mov rcx, rdi; loop: dec rcx; jnz loop; ret */
static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
static void map(char *at)
{
	char name[64];
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %lx code_of_container\n", (long)at, sizeof code);
	fclose(map);
}
static void dump(char *at)
{
	const char *function = "code_of_container";
	char name[64];
	snprintf(name, sizeof name, "/tmp/jit-%d.dump", getpid());
	int file = open(name, O_CREAT | O_RDWR, 0600);
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now = t.tv_sec * 1000000000ull + t.tv_nsec;
	uint32_t head[6] = {0x4a695444, 1, 40, 62, 0, getpid()}, front[2] = {0, 16 + 40 + strlen(function) + 1 + sizeof code};
	uint64_t times[2] = {now, 0}, body[5] = {getpid(), (uint64_t)at, (uint64_t)at, sizeof code, 1};
	write(file, head, 24); write(file, times, 16);
	write(file, front, 8); write(file, &now, 8); write(file, body, 40);
	write(file, function, strlen(function) + 1); write(file, code, sizeof code);
	mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
}
int main(int n, char **args)
{
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof code);
	if (*args[1] == 'm') map(page);
	if (*args[1] == 'd') dump(page);
	for (;;) ((void (*)(long))page)(3000000);
}
"#;

/// A program in a container: with a file system and process ids of its own, where it is process 1.
struct Container {
    unshare: Started,
    pid: String,
}

impl Container {
    /// `how`: `map` or `dump` for a description of its code, else none.
    fn start(scratch: &Scratch, how: &str) -> Self {
        std::fs::create_dir_all(scratch.path("inside")).unwrap();
        let script = format!(
            "mount -t tmpfs container inside && mkdir inside/tmp && cp jit inside/ && \
             touch -d 2001-01-01 stale.map && cp -p stale.map inside/tmp/perf-1.map && \
             exec chroot inside /jit {how}"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-c", &script]).current_dir(scratch.path("."));
        let unshare = Started::of(&mut command);
        let children = format!("/proc/{0}/task/{0}/children", unshare.pid());
        let child = || std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        let runs = |pid: &str| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("jit"))
        };
        unshare.wait_until(|| runs(&child()));
        let pid = child();
        Self { unshare, pid }
    }

    /// Ends it, and its file system with it.
    fn end(self, scratch: &Scratch) {
        scratch.run("kill", ["-KILL", &self.pid]).exits(0);
        self.unshare.wait_until(|| !Path::new(&format!("/proc/{}", self.pid)).exists());
    }
}

/// Need for containers and a program in them: the reason to skip a test.
fn need_containers(scratch: &Scratch) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the code is x86-64's".into());
    }
    let missing = need_root().or_else(need_clock).or_else(need_mount_namespaces);
    if missing.is_some() || need_c_compiler().is_some() {
        return missing.or_else(need_c_compiler);
    }
    std::fs::write(scratch.path("jit.c"), IN_CONTAINER).unwrap();
    std::fs::write(scratch.path("stale.map"), "0 7fffffffffff code_of_another\n").unwrap();
    scratch.run("cc", ["-O1", "-w", "-static", "-o", "jit", "jit.c"]).exits(0);
    None
}

#[test]
fn descriptions_of_code_in_containers_outlive_them() {
    let scratch = Scratch::new();
    skip_unless!(need_containers(&scratch));
    for how in ["map", "dump"] {
        let container = Container::start(&scratch, how);
        let pid = container.pid.clone();
        let record = |name: &str, of: &[&str]| {
            let own = ["record", "-e", "cpu-clock", "-o", name];
            scratch.pmuscope([&own[..], of, &["--", "sleep", "0.4"]].concat()).exits(0);
        };
        record("kept.data", &["-p", &pid]);
        record("thread.data", &["-t", &pid]);
        record("all.data", &["-a"]);
        record("none.data", &["-p", &pid, "--no-keep"]);
        let named = |name: &str| share_of(&scratch, name, &["--pid", &pid], "code_of_container");
        let living = named("none.data");
        container.end(&scratch);
        let kept = ["kept.data", "thread.data", "all.data"].map(named);
        assert!(
            living >= MOSTLY && kept.iter().all(|share| *share >= MOSTLY),
            "{how}: {living} {kept:?}"
        );
        assert!(named("none.data") < 0.05, "{how}");
    }
}

#[test]
fn code_memory_of_a_container_has_the_name_of_its_time() {
    let scratch = Scratch::new();
    skip_unless!(need_containers(&scratch));
    std::fs::write(scratch.path("reuse.c"), REUSED).unwrap();
    scratch.run("cc", ["-O1", "-w", "-o", "reuse", "reuse.c"]).exits(0);
    // The folder, with the dump in it, goes with the mount namespace.
    std::fs::create_dir_all(scratch.path("inside")).unwrap();
    let script =
        "mount -t tmpfs container inside && cp reuse inside/ && cd inside && exec ./reuse 1.5";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    let reuse = Started::of(command.current_dir(scratch.path(".")));
    let pid = reuse.pid().to_string();
    let maps = format!("/proc/{pid}/maps");
    reuse.wait_until(|| std::fs::read_to_string(&maps).unwrap().contains("/jit-"));
    scratch.pmuscope(["record", "-e", "cpu-clock", "-o", "x.data", "-p", &pid]).exits(0);
    reuse.ends().exits(0);
    let phases = ["code_of_first_phase", "code_of_second_phase"];
    for flags in [&["--comm", "reuse"][..], &["--comm", "reuse", "--no-symbol-cache"]] {
        let shares = phases.map(|phase| share_of(&scratch, "x.data", flags, phase));
        assert!(shares.iter().all(|share| *share >= 0.2), "{flags:?}: {shares:?}");
        assert!(shares.iter().sum::<f64>() >= MOSTLY, "{flags:?}: {shares:?}");
    }
}

#[test]
fn a_map_older_than_its_process_is_of_another() {
    let scratch = Scratch::new();
    skip_unless!(need_containers(&scratch));
    let container = Container::start(&scratch, "none");
    let pid = container.pid.clone();
    let args = ["record", "-p", &pid, "-e", "cpu-clock", "-o", "x.data", "--", "sleep", "0.4"];
    scratch.pmuscope(args).exits(0);
    let named = || share_of(&scratch, "x.data", &["--pid", &pid], "code_of_another");
    assert!(named() < 0.05);
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(0).prints("perf-1.map was not used: it is older than the process");
    scratch.pmuscope(["report", "-i", "x.data", "--modules"]).exits(0).prints("stale perf map");
    container.end(&scratch);
    assert!(named() < 0.05, "no copy either");
}
