//! The flags that every command has, and the table of commands.

use std::fmt;
use std::path::PathBuf;

use clap::{
    Arg, ArgAction, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};

use crate::client::{ApiKey, Trust};
use crate::commands::{
    backup, batches, bench, completions, demo, destinations, dlq, doctor, domains, echo, github,
    init, keys, man, migrate, ops, restore, retention, serve, status, submit,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  clinch init
  clinch status
  clinch submit payments charge order-123 --payload '{\"amount\":5000}' --wait 3s
  clinch ops ls --state FAILED
  clinch ops get 01917f5e-0000-7000-8000-000000000000 --path

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 conflict, 5 not settled in time.

Flags take precedence over the environment, the environment over the configuration file.";

/// Examples come before the options: they are what most readers look for.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}{after-help}

{all-args}";

/// Makes every call to a system you do not control end exactly one way
#[derive(Debug, Parser)]
#[command(name = "clinch", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file; otherwise ./clinch.toml
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CLINCH_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// Server; otherwise server.listen of the configuration
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CLINCH_URL",
        hide_env_values = true
    )]
    pub(crate) url: Option<String>,
    /// API key; better in the environment than here
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "CLINCH_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<Secret>,
    /// Trust this authority for https (PEM)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CLINCH_CA_FILE",
        hide_env_values = true
    )]
    ca_file: Option<PathBuf>,
    /// Client certificate with its key (PEM)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CLINCH_CLIENT_CERT",
        hide_env_values = true
    )]
    client_cert: Option<PathBuf>,
    /// Output format
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: Format,
    /// No colours; also by setting NO_COLOR
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Name the server and the store on standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

impl Global {
    /// The certificates for https.
    pub(crate) fn trust(&self) -> Trust {
        let file =
            |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        Trust {
            ca_file: file(&self.ca_file),
            client_cert: file(&self.client_cert),
        }
    }

    /// The API key, if there is one; it must be a valid header value.
    pub(crate) fn key(&self) -> Result<Option<ApiKey>, CliError> {
        match &self.api_key {
            Some(Secret(text)) if !text.is_empty() => ApiKey::new(text).map(Some),
            _ => Ok(None),
        }
    }
}

/// Text that no error and no debug output shows. Parsing it never fails: the parser would quote a
/// refused value.
#[derive(Clone)]
struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Client(Box<Client>),
    /// Show everything: a server, two workers, an unreliable provider, and two kills
    Demo(demo::Args),
    /// Write a first clinch.toml, with comments that explain it
    Init(init::Args),
    /// Answer calls with what they carried: an upstream to try a route with
    Echo(echo::Args),
    /// Run the API, workers and recovery, or some of them
    Serve(serve::Args),
    /// Manage API keys; works on the database, so that the first key can be created
    #[command(subcommand)]
    Keys(keys::Command),
    /// Bring the database's schema up to date, or show the pending migrations
    Migrate(migrate::Args),
    /// Copy the database while everything runs
    Backup(backup::Args),
    /// Create the database from a backup; the effect of every open operation becomes unknown
    Restore(restore::Args),
    /// Check the configuration and everything that it refers to
    Doctor(doctor::Args),
    /// Measure this machine and a store
    Bench(bench::Args),
    /// The GitHub collector: runs, their progress, and what they collected
    #[command(subcommand)]
    Github(Box<github::Command>),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write manual pages to a folder
    Man(man::Args),
}

/// Commands that call a running server.
#[derive(Debug, Subcommand)]
pub(crate) enum Client {
    /// Show what is wrong, since when, and the next command
    Status(status::Args),
    /// Submit one operation
    Submit(submit::Args),
    /// Show operations and act on them
    #[command(subcommand)]
    Ops(ops::Command),
    /// Dead letters: operations that ended FAILED other than by cancel
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Queues: counters, pause, resume
    #[command(subcommand)]
    Domains(domains::Command),
    /// Providers: their state, and what is done to them by hand
    #[command(subcommand)]
    Destinations(destinations::Command),
    /// Batches: groups of operations
    #[command(subcommand)]
    Batches(batches::Command),
    /// The deletion of old data: its clock, and whether it waits for a confirmation
    #[command(subcommand)]
    Retention(retention::Command),
}

/// The command and all its subcommands with [`HELP`].
fn examples_first(command: clap::Command) -> clap::Command {
    // One form for -h and --help: the long form takes three lines for each option.
    let help = Arg::new("help").short('h').long("help");
    let help = help.action(ArgAction::HelpShort).help("Print help");
    let help = help.help_heading(None::<&str>);
    let text = command.get_after_help().map(ToString::to_string);
    let command = match text {
        Some(text) => command.after_help(flowing(&text)),
        None => command,
    };
    let command = command
        .help_template(HELP)
        .disable_help_flag(true)
        .arg(help);
    let names: Vec<String> = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    let inner = |command: clap::Command, name: String| command.mut_subcommand(name, examples_first);
    names.into_iter().fold(command, inner)
}

/// Each paragraph as one line, which the parser breaks at the width of the terminal: a paragraph that
/// was broken in the source would be broken twice. A list of examples stays as it is.
fn flowing(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| match paragraph.contains("\n ") {
            true => paragraph.to_owned(),
            false => paragraph.replace('\n', " "),
        });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Parses the command line; on `Err`, help or a usage error has been printed.
pub(crate) fn parse() -> Result<Cli, Exit> {
    let mut command = examples_first(Cli::command());
    // Help and usage errors are printed before the flag is parsed.
    if std::env::args_os().any(|argument| argument == "--no-color") {
        command = command.color(ColorChoice::Never);
    }
    let parsed = command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| match error.print() {
        Err(broken) => CliError::from(broken).exit(),
        Ok(()) if error.use_stderr() => Exit::Usage,
        Ok(()) => Exit::Ok,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_and_every_flag_a_word() {
        fn check(command: &clap::Command, path: &str) {
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{path}: {id} has no help");
            }
            if command.has_subcommands() {
                for inner in command.get_subcommands() {
                    check(inner, &format!("{path} {}", inner.get_name()));
                }
            } else {
                let help = command.get_after_help().map(ToString::to_string);
                let example = format!("  {path}");
                assert!(
                    help.is_some_and(|help| help.contains(&example)),
                    "{path} has no example"
                );
            }
        }
        check(&Cli::command(), "clinch");
    }

    #[test]
    fn examples_come_before_options_and_global_options_last() {
        let mut command = examples_first(Cli::command());
        command.build();
        let ls = command
            .find_subcommand_mut("ops")
            .and_then(|ops| ops.find_subcommand_mut("ls"));
        let help = ls
            .map(|ls| ls.render_help().to_string())
            .unwrap_or_default();
        let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(place("Examples:") < place("Options:"), "{help}");
        assert!(place("Filters:") < place("Global options:"), "{help}");
        let global = help.lines().skip_while(|line| *line != "Global options:");
        assert!(global.count() <= 10, "{help}");
    }

    #[test]
    fn text_fills_a_terminal_of_80_columns() {
        let mut command = examples_first(Cli::command()).term_width(80);
        command.build();
        let redrive = command
            .find_subcommand_mut("dlq")
            .and_then(|dlq| dlq.find_subcommand_mut("redrive"));
        let help = redrive.map(|redrive| redrive.render_help().to_string());
        let help = help.unwrap_or_default();
        let lines = help.lines().skip_while(|line| !line.starts_with("The "));
        let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(lines.len() > 3, "{help}");
        let (_, full) = lines.split_last().unwrap();
        let is_full = |line: &&str| (65..=80).contains(&line.len());
        assert!(full.iter().all(is_full), "{help}");
        assert_eq!(
            flowing("Examples:\n  a\n  b\n\nOne\ntwo.\n\nThree."),
            "Examples:\n  a\n  b\n\nOne two.\n\nThree."
        );
    }

    #[test]
    fn debug_output_has_no_key() {
        let cli = Cli::parse_from(["clinch", "--api-key", "canary", "completions", "bash"]);
        assert!(!format!("{cli:?}").contains("canary"));
    }
}
