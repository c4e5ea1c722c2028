//! `pmuscope lab kernels`.

use pmuscope_console::exit::Exit;
use pmuscope_console::output::OutputArgs;
use pmuscope_console::say;
use pmuscope_lab::{Arch, HOST_KERNEL, Kernels};
use pmuscope_report::{Cell, Column, Table, escape};

use super::refused;

const SCHEMA: &str = "pmuscope/lab-kernels/1";

pmuscope_console::forms!(KernelsFormats: Text Json, "pmuscope/lab-kernels/1");

/// Flags of `pmuscope lab kernels`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope lab kernels                              the running kernel, and those fetched so far
  pmuscope lab kernels --fetch 6.1,6.12             fetch kernels in advance
  pmuscope lab kernels --available --arch aarch64   kernels in Debian's packages")]
pub(crate) struct Args {
    /// List kernels that apt can fetch, too
    #[arg(long)]
    available: bool,
    /// Fetch these kernels first, unless present
    ///
    /// Versions, or names of Debian packages.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    fetch: Vec<String>,
    /// List kernels for this architecture [default: this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    #[command(flatten)]
    output: OutputArgs<KernelsFormats>,
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
    let form = args.output.form()?;
    let rows = rows(&args)?;
    let listing = KernelListing { kernels: rows };
    form.either((SCHEMA, None), &Exit::Done, &listing, |style| {
        let mut table =
            Table::new(["--kernel", "arch", "state", "sha256", "from"].map(Column::text));
        for row in &listing.kernels {
            table.row([
                Cell::new(escape(&row.name)),
                Cell::new(row.arch.clone()),
                Cell::new(row.state),
                Cell::measured(row.sha256.as_ref(), |sum| sum.chars().take(12).collect()),
                Cell::new(escape(&row.about)),
            ]);
        }
        table.render(style)
    })?;
    Ok(Exit::Done)
}

fn rows(args: &Args) -> anyhow::Result<Vec<KernelRow>> {
    let cache = pmuscope_machine::user_cache();
    let kernels = Kernels::host(cache.as_deref());
    let host = Arch::host().map_err(|error| refused(&error))?;
    let mut notice = |text: &str| say!("note: {text}");
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
