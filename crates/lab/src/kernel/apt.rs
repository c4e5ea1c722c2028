//! Kernels of Debian's packages, by apt's own programs. Nothing is installed and no rights are needed:
//! what root's apt has not read is read into lists of our own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::cache::{Cache, Cached};
use super::version::{is_meant, order};
use crate::{Arch, LabError};

const PREFIX: &str = "linux-image-";
/// Packages of one release, older lists may name some that are gone: how many to try.
const TRIES: usize = 3;

/// Downloads the newest kernel that `name` means into the cache.
pub(super) fn download(
    cache: &Cache,
    name: &str,
    arch: Arch,
    notice: &mut dyn FnMut(&str),
) -> Result<Cached, LabError> {
    let no = |why: String| LabError::NoKernel { name: name.to_owned(), arch, why };
    let apt = Apt::with_lists(cache, arch, notice)?;
    let packages = choose(&apt.packages()?, name, arch);
    if packages.is_empty() {
        let why = "apt's package lists have none. Try: pmuscope lab kernels --available";
        return Err(no(why.to_owned()));
    }
    std::fs::create_dir_all(cache.path()).map_err(LabError::cache(cache.path()))?;
    let mut refusal = String::new();
    for package in packages.iter().take(TRIES) {
        notice(&format!("downloading {package}"));
        let kept = apt.fetch(package, arch).map(|()| keep(cache, arch, package, &apt.scratch));
        // What was unpacked is in the cache now, or of no use.
        let _ = std::fs::remove_dir_all(&apt.scratch);
        match kept {
            Ok(kept) => return kept,
            Err(why) => refusal = why,
        }
    }
    Err(no(refusal))
}

/// Releases of packages, older before newer.
pub(super) fn releases(
    cache: &Cache,
    arch: Arch,
    notice: &mut dyn FnMut(&str),
) -> Result<Vec<String>, LabError> {
    let packages = Apt::with_lists(cache, arch, notice)?.packages()?;
    let mut releases: Vec<String> =
        packages.iter().filter_map(|p| release(p, arch)).map(str::to_owned).collect();
    releases.sort_by(|a, b| order(a, b));
    releases.dedup();
    Ok(releases)
}

/// The release of a package with a kernel for these guests: not debug information, and not the
/// packages that only name the newest.
fn release(package: &str, arch: Arch) -> Option<&str> {
    let release = package.strip_prefix(PREFIX)?;
    let release = release.strip_suffix("-unsigned").unwrap_or(release);
    let flavour = release.strip_suffix(arch.debian())?.strip_suffix('-')?;
    let parts = flavour.split(['.', '-', '+']).filter(|p| p.bytes().all(|b| b.is_ascii_digit()));
    // 6.1.0-53 and 6.12.117+deb12 name one kernel each; 6.1 and 6.12 stand for the newest.
    (flavour.starts_with(|c: char| c.is_ascii_digit()) && parts.count() >= 3).then_some(release)
}

/// Packages that `name` means, the best first: kernels for virtual machines, then newer ones, then
/// those with a signature.
fn choose(packages: &[String], name: &str, arch: Arch) -> Vec<String> {
    let mut found: Vec<(&str, &String)> = packages
        .iter()
        .filter_map(|package| Some((release(package, arch)?, package)))
        .filter(|(release, _)| is_meant(release, name))
        .collect();
    let special = |release: &str| release.contains("-rt-") || release.contains("-16k");
    let rank = |release: &str| (special(release), !release.contains("-cloud-"));
    found.sort_by(|(a, p), (b, q)| {
        rank(a).cmp(&rank(b)).then_with(|| order(b, a)).then_with(|| p.len().cmp(&q.len()))
    });
    found.into_iter().map(|(_, package)| package.clone()).collect()
}

fn keep(cache: &Cache, arch: Arch, package: &str, folder: &Path) -> Result<Cached, LabError> {
    let no = |why: &str| LabError::NoKernel {
        name: package.to_owned(),
        arch,
        why: format!("the package has no {why}"),
    };
    let release = release(package, arch).ok_or_else(|| no("release in its name"))?;
    let [image, config] = ["vmlinuz", "config"].map(|name| file_of(folder, name, release));
    match (image, config) {
        (Some(image), Some(config)) => cache.keep((arch, release), package, &image, &config),
        _ => Err(no("kernel with its configuration")),
    }
}

/// The unpacked file `name` of a release: since Linux 7.2 packages have it beside the modules.
fn file_of(folder: &Path, name: &str, release: &str) -> Option<PathBuf> {
    let places = [format!("boot/{name}-{release}"), format!("usr/lib/modules/{release}/{name}")];
    places.into_iter().map(|place| folder.join(place)).find(|path| path.is_file())
}

/// Packages that have the kernel and its configuration where that of the image has neither (Debian, since Linux 7.2).
fn parts(release: &str) -> [String; 2] {
    ["binary", "base"].map(|part| format!("linux-{part}-{release}"))
}

/// apt's programs with their options.
struct Apt {
    options: Vec<String>,
    scratch: PathBuf,
}

impl Apt {
    /// With the system's own lists if they have kernels, else with ours, which are read now if there
    /// are none.
    fn with_lists(
        cache: &Cache,
        arch: Arch,
        notice: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let scratch = cache.path().join(format!(".{}-apt", std::process::id()));
        let native = Self {
            options: vec!["-o".into(), "APT::Sandbox::User=root".into()],
            scratch: scratch.clone(),
        };
        let has = |apt: &Self| {
            let packages = apt.packages();
            packages.map(|packages| packages.iter().any(|p| release(p, arch).is_some()))
        };
        if has(&native)? {
            return Ok(native);
        }
        let own = Self { options: own_options(cache, arch)?, scratch };
        if !has(&own)? {
            notice("reading apt's package lists");
            let update = own.run("apt-get", &["update"])?;
            if !has(&own)? {
                let why = format!("apt-get update found none: {}", complaint(&update));
                return Err(LabError::NoKernel { name: String::new(), arch, why });
            }
        }
        Ok(own)
    }

    /// Names of all packages that may be kernels.
    fn packages(&self) -> Result<Vec<String>, LabError> {
        let output = self.run("apt-cache", &["pkgnames", PREFIX])?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Downloads a package, and those of its parts where it has no kernel itself, and unpacks kernel and configuration.
    fn fetch(&self, package: &str, arch: Arch) -> Result<(), String> {
        let _ = std::fs::remove_dir_all(&self.scratch);
        std::fs::create_dir_all(&self.scratch).map_err(|error| error.to_string())?;
        self.fetch_one(package)?;
        let release = release(package, arch).unwrap_or_default();
        if file_of(&self.scratch, "vmlinuz", release).is_none() {
            parts(release).iter().try_for_each(|part| self.fetch_one(part))?;
        }
        Ok(())
    }

    fn fetch_one(&self, package: &str) -> Result<(), String> {
        let fail = |error: LabError| error.to_string();
        let io = |error: std::io::Error| error.to_string();
        let folder = &self.scratch;
        let mut download = self.command("apt-get");
        let output = download.args(["download", package]).current_dir(folder).output();
        let output = output.map_err(io)?;
        if !output.status.success() {
            return Err(format!("cannot download {package}: {}", complaint(&output)));
        }
        let mut files = std::fs::read_dir(folder).map_err(io)?.flatten().map(|e| e.path());
        let file = files.find(|path| path.extension().is_some_and(|e| e == "deb"));
        let file = file.ok_or_else(|| format!("{package} was downloaded but is missing"))?;
        unpack(&file, folder).map_err(fail)?;
        std::fs::remove_file(&file).map_err(io)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, LabError> {
        self.command(program).args(arguments).output().map_err(|source| started(program, source))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options).stdin(Stdio::null()).env("LC_ALL", "C");
        command
    }
}

/// Lists and downloads in folders of our own, for one architecture.
fn own_options(cache: &Cache, arch: Arch) -> Result<Vec<String>, LabError> {
    let folder = cache.path().join("apt").join(arch.name());
    for below in ["state/lists/partial", "cache/archives/partial"] {
        let path = folder.join(below);
        std::fs::create_dir_all(&path).map_err(LabError::cache(&path))?;
    }
    let status = folder.join("state/status");
    std::fs::write(&status, "").map_err(LabError::file("write", &status))?;
    let options = [
        format!("Dir::State={}", folder.join("state").display()),
        format!("Dir::State::status={}", status.display()),
        format!("Dir::Cache={}", folder.join("cache").display()),
        format!("APT::Architecture={}", arch.debian()),
        format!("APT::Architectures={}", arch.debian()),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Languages=none".to_owned(),
    ];
    Ok(options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect())
}

/// Where packages have a kernel and its configuration.
const WANTED: [&str; 4] = [
    "./boot/vmlinuz-*",
    "./boot/config-*",
    "./usr/lib/modules/*/vmlinuz",
    "./usr/lib/modules/*/config",
];

/// Unpacks the kernel and its configuration; modules are most of a package and of no use here.
fn unpack(package: &Path, folder: &Path) -> Result<(), LabError> {
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| started("dpkg-deb", source))?;
    let mut command = Command::new("tar");
    // A package that has none of these is one of several: tar's complaint about that is of no use.
    command.args(["-x", "--wildcards"]).args(WANTED).current_dir(folder).stderr(Stdio::null());
    if let Some(pipe) = reader.stdout.take() {
        command.stdin(pipe);
    }
    command.status().map_err(|source| started("tar", source))?;
    let read = reader.wait().map_err(|source| started("dpkg-deb", source))?;
    if read.success() {
        return Ok(());
    }
    Err(LabError::file("unpack", package)(std::io::Error::other(format!("dpkg-deb: {read}"))))
}

fn started(program: &str, source: std::io::Error) -> LabError {
    if source.kind() == std::io::ErrorKind::NotFound {
        let source = std::io::Error::other(
            "it is not installed; kernels are downloaded on Debian and Ubuntu only. Try: --kernel \
             FILE",
        );
        return LabError::Start { program: program.to_owned(), source };
    }
    LabError::Start { program: program.to_owned(), source }
}

/// The last error that a program told.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| line.starts_with("E:")).or(text.lines().last());
    line.map_or_else(|| output.status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_in_boot_and_beside_its_modules() {
        let folder = tempfile::tempdir().unwrap();
        let put = |place: &str| {
            let path = folder.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            Some(path)
        };
        let found = |name| file_of(folder.path(), name, "7.2.13+deb14-cloud-amd64");
        assert_eq!(found("vmlinuz"), None);
        let beside = put("usr/lib/modules/7.2.13+deb14-cloud-amd64/vmlinuz");
        assert_eq!(found("vmlinuz"), beside);
        let in_boot = put("boot/vmlinuz-7.2.13+deb14-cloud-amd64");
        assert_eq!((found("vmlinuz"), found("config")), (in_boot, None));
        let release = release("linux-image-7.2.13+deb14-cloud-amd64", Arch::X86_64).unwrap();
        let expected = ["binary", "base"].map(|part| format!("linux-{part}-{release}"));
        assert_eq!(parts(release), expected);
    }

    #[test]
    fn kernels_for_virtual_machines_come_first_and_newer_ones_before_older() {
        let packages = [
            "linux-image-6.1.0-53-amd64",
            "linux-image-6.1.0-47-cloud-amd64",
            "linux-image-6.1.0-53-cloud-amd64-unsigned",
            "linux-image-6.1.0-53-cloud-amd64",
            "linux-image-6.1.0-53-cloud-amd64-dbg",
            "linux-image-6.1.0-53-rt-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-6.12.100+deb12-cloud-amd64",
            "linux-image-6.12.99+deb12-cloud-amd64",
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-53-cloud-arm64",
        ]
        .map(str::to_owned);
        let of = |name| choose(&packages, name, Arch::X86_64);
        assert_eq!(
            of("6.1"),
            [
                "linux-image-6.1.0-53-cloud-amd64",
                "linux-image-6.1.0-53-cloud-amd64-unsigned",
                "linux-image-6.1.0-47-cloud-amd64",
                "linux-image-6.1.0-53-amd64",
                "linux-image-6.1.0-53-rt-amd64",
            ]
        );
        assert_eq!(of("6.12")[0], "linux-image-6.12.100+deb12-cloud-amd64");
        assert_eq!(of("linux-image-6.1.0-53-amd64"), ["linux-image-6.1.0-53-amd64"]);
        assert_eq!(choose(&packages, "6.1", Arch::Aarch64), ["linux-image-6.1.0-53-cloud-arm64"]);
        assert!(of("5.10").is_empty());
    }
}
