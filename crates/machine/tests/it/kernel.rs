//! The kernel, its limits and the rights of this process.

use std::path::Path;

use pmuscope_machine::{Limits, Rights, Rlimit};

use crate::fixture::Tree;

#[test]
fn the_running_kernel() {
    let tree = Tree::new();
    tree.file("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
        .file("proc/sys/kernel/hostname", "box\n")
        .file("proc/sys/kernel/arch", "riscv64\n");
    let kernel = tree.machine().kernel().unwrap();
    assert_eq!(kernel.release, "6.1.0-28-amd64");
    assert_eq!(kernel.version, (6, 1));
    assert_eq!((kernel.hostname.as_str(), kernel.arch.as_str()), ("box", "riscv64"));
    tree.file("proc/sys/kernel/osrelease", "unknown\n");
    assert!(tree.machine().kernel().is_err());
}

#[test]
fn limits_that_are_not_told_are_none() {
    assert_eq!(Tree::new().machine().limits(), Limits::default());
}

#[test]
fn limits_as_the_kernel_prints_them() {
    let tree = Tree::new();
    for (name, value) in [
        ("perf_event_paranoid", "-1"),
        ("perf_event_mlock_kb", "516"),
        ("perf_event_max_sample_rate", "100000"),
        ("perf_cpu_time_max_percent", "25"),
        ("kptr_restrict", "1"),
        ("nmi_watchdog", "1"),
    ] {
        tree.file(&format!("proc/sys/kernel/{name}"), format!("{value}\n"));
    }
    tree.file(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max open files            1024                 524288               files     \n\
         Max locked memory         unlimited            unlimited            bytes     \n",
    );
    let limits = tree.machine().limits();
    assert_eq!(limits.perf_event_paranoid, Some(-1));
    assert_eq!(limits.perf_event_mlock_kb, Some(516));
    assert_eq!((limits.nmi_watchdog, limits.watchdog_uses_counter), (Some(true), Some(true)));
    assert_eq!(limits.io_uring_disabled, None);
    assert_eq!(limits.nofile, Some(Rlimit { soft: 1024, hard: 524_288 }));
    let unlimited = Rlimit::UNLIMITED;
    assert_eq!(limits.memlock, Some(Rlimit { soft: unlimited, hard: unlimited }));
}

#[test]
fn a_watchdog_of_cpus_that_check_one_another_uses_no_counter() {
    const NAME: &str = "watchdog_buddy_check_hardlockup";
    let uses_counter = |files: &[(&str, &str)]| {
        let tree = Tree::new();
        tree.file("proc/sys/kernel/nmi_watchdog", "1\n");
        tree.file("proc/sys/kernel/osrelease", "7.2.0-arm64\n");
        for (path, text) in files {
            tree.file(path, *text);
        }
        tree.machine().limits().watchdog_uses_counter
    };
    let buddy = "CONFIG_HARDLOCKUP_DETECTOR=y\nCONFIG_HARDLOCKUP_DETECTOR_BUDDY=y\n";
    let perf =
        "CONFIG_HAVE_HARDLOCKUP_DETECTOR_BUDDY=y\n# CONFIG_HARDLOCKUP_DETECTOR_BUDDY is not set\n";
    for config in ["boot/config-7.2.0-arm64", "lib/modules/7.2.0-arm64/config"] {
        assert_eq!(uses_counter(&[(config, buddy)]), Some(false), "{config}");
        assert_eq!(uses_counter(&[(config, perf)]), Some(true), "{config}");
    }
    // Without the configuration, as in most guests.
    let listed = format!("0000000000000000 T _text\n0000000000000000 T {NAME}\n");
    assert_eq!(uses_counter(&[("proc/kallsyms", &listed)]), Some(false));
    let other = format!("0000000000000000 T {NAME}_of_another\n0000000000000000 t x\t[{NAME}]\n");
    assert_eq!(uses_counter(&[("proc/kallsyms", &other)]), Some(true));
}

fn rights(effective: &str, uid_map: &str) -> Rights {
    let tree = Tree::new();
    tree.file(
        "proc/self/status",
        format!("Name:\tx\nUid:\t1000\t1001\t1000\t1000\nCapEff:\t{effective}\n"),
    );
    tree.file("proc/self/uid_map", uid_map);
    tree.machine().rights()
}

#[test]
fn capabilities_come_one_by_one() {
    let all = "         0          0 4294967295\n";
    let none = rights("0000000000000000", all);
    assert_eq!(none.euid, Some(1001));
    assert!(!none.can_watch_all() && none.initial_user_namespace);
    let perfmon = rights("0000004000000000", all);
    assert_eq!(perfmon, Rights { perfmon: true, ..none });
    assert!(perfmon.can_watch_all());
    let bpf_and_lock = rights("0000008000004000", all);
    assert_eq!(bpf_and_lock, Rights { bpf: true, ipc_lock: true, ..none });
    let rootless = rights("000001ffffffffff", "0 1000 1\n1 100000 65536\n");
    assert!(rootless.sys_admin && rootless.syslog && !rootless.can_watch_all());
}

#[test]
fn nothing_readable_is_no_right() {
    let rights = Tree::new().machine().rights();
    assert_eq!(rights, Rights { initial_user_namespace: true, ..Rights::default() });
}

#[test]
fn modules_with_their_files() {
    let tree = Tree::new();
    tree.file("proc/sys/kernel/osrelease", "6.1.0\n")
        .file(
            "proc/modules",
            "snd_hda 20480 1 - Live 0xffffffffc0b00000\next4 1019904 1 - Live 0xffffffffc0a00000 (E)\n",
        )
        .file(
            "lib/modules/6.1.0/modules.dep",
            "kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz\nkernel/sound/snd-hda.ko:\n",
        );
    let modules = tree.machine().modules();
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["ext4", "snd_hda"]);
    let path = |index: usize| {
        let module: &pmuscope_machine::KernelModule = &modules[index];
        module.path.clone().unwrap().strip_prefix(tree.machine().root()).unwrap().to_owned()
    };
    assert_eq!(path(0), Path::new("lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz"));
    assert_eq!(path(1), Path::new("lib/modules/6.1.0/kernel/sound/snd-hda.ko"));

    tree.file("proc/modules", "ext4 1019904 1 - Live 0x0000000000000000 (E)\n");
    assert_eq!(tree.machine().modules(), []);
}

#[test]
fn build_ids_of_kernel_and_modules() {
    let mut note = Vec::new();
    for word in [4u32, 4, 3] {
        note.extend(word.to_ne_bytes());
    }
    note.extend(b"GNU\0\x01\x02\x03\x04");
    let tree = Tree::new();
    tree.file("sys/kernel/notes", &note).file("sys/module/ext4/notes/.note.gnu.build-id", &note);
    let machine = tree.machine();
    assert_eq!(machine.kernel_build_id(), Some(vec![1, 2, 3, 4]));
    assert_eq!(machine.module_build_id("ext4"), Some(vec![1, 2, 3, 4]));
    assert_eq!(machine.module_build_id("xfs"), None);
    assert_eq!(machine.module_build_id("../module/ext4"), None);
}
