//! `clinch completions`.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch completions bash > /etc/bash_completion.d/clinch
  clinch completions zsh > \"${fpath[1]}/_clinch\"";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell that will read the script
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: Args) -> Result<Exit, CliError> {
    io::stdout().write_all(&script(args.shell))?;
    Ok(Exit::Ok)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clinch", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of every command, such as `dlq` and `redrive`, and the flags of each.
    fn words(command: &clap::Command, names: &mut Vec<String>, flags: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            names.push(inner.get_name().to_owned());
            let shown = inner.get_arguments().filter(|one| !one.is_hide_set());
            flags.extend(shown.filter_map(|one| one.get_long()).map(str::to_owned));
            words(inner, names, flags);
        }
    }

    #[test]
    fn every_command_and_flag_is_completed_in_every_packed_shell() {
        let (mut names, mut flags) = (Vec::new(), Vec::new());
        words(&Cli::command(), &mut names, &mut flags);
        assert!(names.len() > 40 && flags.len() > 100, "{names:?} {flags:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).expect("text");
            // The generator for fish leaves out the flags of a command below a command's command.
            let flags = flags.iter().filter(|_| shell != Shell::Fish);
            let missing: Vec<_> = names
                .iter()
                .chain(flags)
                .filter(|word| !script.contains(*word))
                .collect();
            assert!(missing.is_empty(), "{shell}: {missing:?}");
        }
    }
}
