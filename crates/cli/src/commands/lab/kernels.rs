//! `pmuscope lab kernels`.

use pmuscope_lab::{Arch, HOST_KERNEL, Kernels};
use pmuscope_report::{Cell, Column, Table, escape};

use super::refused;
use crate::commands::answer::Invocation;
use crate::exit::Exit;
use crate::terminal;

const SCHEMA: &str = "pmuscope/lab-kernels/1";

/// Flags of `pmuscope lab kernels`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope lab kernels                              the running kernel, and those fetched so far
  pmuscope lab kernels --fetch 6.1,6.12             fetch what will be needed
  pmuscope lab kernels --available --arch aarch64   what Debian's packages have")]
pub(crate) struct Args {
    /// Also those that apt can fetch
    #[arg(long)]
    available: bool,
    /// Fetch these first, unless they are there: versions or packages of Debian
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    fetch: Vec<String>,
    /// For guests of this kind [default: this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Print everything as one JSON object (schema pmuscope/lab-kernels/1)
    #[arg(long)]
    json: bool,
}

/// A kernel, in the words of a table.
#[derive(Debug, serde::Serialize)]
struct KernelRow {
    /// What to type after `--kernel`.
    name: String,
    arch: String,
    /// `running`, `fetched`, `available`.
    state: &'static str,
    sha256: Option<String>,
    /// Its file or package, or why it cannot be used.
    about: String,
}

#[derive(Debug, serde::Serialize)]
struct KernelListing {
    kernels: Vec<KernelRow>,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let begun = Invocation::now();
    let rows = rows(&args)?;
    let text = if args.json {
        begun.json(SCHEMA, None, &Exit::Done, &KernelListing { kernels: rows })?
    } else {
        let mut table =
            Table::new(["--kernel", "arch", "state", "sha256", "from"].map(Column::text));
        for row in rows {
            table.row([
                Cell::new(escape(&row.name)),
                Cell::new(row.arch),
                Cell::new(row.state),
                Cell::measured(row.sha256, |sum| sum.chars().take(12).collect()),
                Cell::new(escape(&row.about)),
            ]);
        }
        table.render(&terminal::style())
    };
    crate::terminal::print(&text)?;
    Ok(Exit::Done)
}

fn rows(args: &Args) -> anyhow::Result<Vec<KernelRow>> {
    let cache = pmuscope_machine::user_cache();
    let kernels = Kernels::host(cache.as_deref());
    let host = Arch::host().map_err(|error| refused(&error))?;
    let mut notice = |text: &str| say!("pmuscope: {text}");
    for name in &args.fetch {
        let arch = args.arch.unwrap_or(host);
        kernels.find(name, arch, &mut notice).map_err(|error| refused(&error))?;
    }
    let mut rows = Vec::new();
    if args.arch.is_none_or(|arch| arch == host) {
        let kernel = kernels.of_host(host);
        rows.push(KernelRow {
            name: HOST_KERNEL.to_owned(),
            arch: host.to_string(),
            state: "running",
            sha256: kernel.as_ref().ok().map(|kernel| kernel.sha256.clone()),
            about: match kernel {
                Ok(kernel) => kernel.image.display().to_string(),
                Err(error) => error.to_string(),
            },
        });
    }
    let cached = kernels.cached();
    let wanted = cached.iter().filter(|k| args.arch.is_none_or(|arch| arch.name() == k.arch));
    rows.extend(wanted.map(|kernel| KernelRow {
        name: kernel.release.clone(),
        arch: kernel.arch.clone(),
        state: "fetched",
        sha256: Some(kernel.sha256.clone()),
        about: kernel.package.clone(),
    }));
    if args.available {
        let arch = args.arch.unwrap_or(host);
        let releases = kernels.available(arch, &mut notice).map_err(|error| refused(&error))?;
        let is_new = |release: &String| {
            !cached.iter().any(|k| k.release == *release && k.arch == arch.name())
        };
        rows.extend(releases.into_iter().filter(is_new).map(|name| KernelRow {
            about: format!("linux-image-{name}"),
            name,
            arch: arch.to_string(),
            state: "available",
            sha256: None,
        }));
    }
    Ok(rows)
}
