//! What happens around each run of a command: warm-up, commands before and after, and where it prints.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use pmuscope_console::exit::{bad_input, beside_command, not_possible};
use pmuscope_measure::arms::ArmCommand;
use pmuscope_measure::counting::{CommandOutput, Signal};

/// The flags.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Runs")]
pub(super) struct HookArgs {
    /// Run each command N times before, without counting
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) warmup: usize,
    /// Run CMD in a shell before each run
    ///
    /// It is not counted. If it fails, no more runs are made.
    #[arg(long, visible_alias = "prepare", value_name = "CMD")]
    pre: Option<String>,
    /// Run CMD in a shell after each run
    #[arg(long, value_name = "CMD")]
    post: Option<String>,
    /// Where the command prints
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    command_output: Where,
}

/// Where a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Where {
    /// On this terminal; it reads from it too
    #[default]
    Inherit,
    /// Nowhere; it has nothing to read
    Null,
}

impl HookArgs {
    /// Where the command prints, given whether its output is needed.
    pub(super) fn output(&self, is_needed: bool) -> CommandOutput {
        match (is_needed, self.command_output) {
            (true, _) => CommandOutput::Kept,
            (false, Where::Null) => CommandOutput::Discarded,
            (false, Where::Inherit) => CommandOutput::Inherited,
        }
    }

    /// Whether output of the command is discarded.
    pub(super) fn discards(&self) -> bool {
        self.command_output == Where::Null
    }

    /// # Errors
    /// If there is no command to run before.
    pub(super) fn check(&self, name: &str, command: &[OsString]) -> anyhow::Result<()> {
        if self.warmup > 0 && command.is_empty() {
            return Err(bad_input(format!(
                "--warmup runs a command before, and there is none. Try: pmuscope {name} --warmup {} -- CMD",
                self.warmup
            )));
        }
        Ok(())
    }
}

/// The commands around the runs of one command.
pub(super) struct Hooks<'a> {
    pub(super) args: &'a HookArgs,
    /// Whose placeholders are replaced in them.
    pub(super) arm: &'a ArmCommand,
}

impl Hooks<'_> {
    /// Runs the command of `--pre`; false after a signal.
    pub(super) fn before(&self, signal: Signal<'_>) -> anyhow::Result<bool> {
        self.run("--pre", self.args.pre.as_deref(), signal)
    }

    /// Runs the command of `--post`; false after a signal.
    pub(super) fn after(&self, signal: Signal<'_>) -> anyhow::Result<bool> {
        self.run("--post", self.args.post.as_deref(), signal)
    }

    fn run(&self, flag: &str, text: Option<&str>, signal: Signal<'_>) -> anyhow::Result<bool> {
        let Some(text) = text else { return Ok(true) };
        let text = self.arm.replace(text);
        let mut command = Command::new("sh");
        command.args(["-c", &text]).stdin(Stdio::null());
        // Standard output is for results.
        command.stdout(std::io::stderr());
        if self.args.discards() {
            command.stdout(Stdio::null());
        }
        let status = command.status().with_context(|| format!("{flag}: cannot start sh"))?;
        if signal.is_given() {
            return Ok(false);
        }
        if status.success() {
            return Ok(true);
        }
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        };
        let error = not_possible(format!("{flag} {text:?}: {how}, so no more runs were made"));
        Err(if self.arm.command.is_empty() { error } else { beside_command(error) })
    }
}
