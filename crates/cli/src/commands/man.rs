//! `clinch man`: manual pages, one for each command.

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clinch man /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for the pages: clinch.1, clinch-serve.1, …
    folder: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(args: &Args) -> Result<Exit, CliError> {
    let folder = &args.folder;
    let wrong = |error| CliError::failed(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(wrong)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::folder::Folder;

    /// `clinch.1`, `clinch-ops.1`, `clinch-ops-ls.1`, …
    fn pages(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
        found.insert(format!("{name}.1"));
        for inner in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            pages(inner, &format!("{name}-{}", inner.get_name()), found);
        }
    }

    #[test]
    fn every_command_has_a_page_that_says_what_it_does() {
        let folder = Folder::new(&std::env::temp_dir(), "clinch-man").expect("a folder");
        let args = Args {
            folder: folder.path().join("man1"),
        };
        run(&args).expect("written");
        let mut expected = BTreeSet::new();
        pages(&Cli::command(), "clinch", &mut expected);
        assert!(expected.len() > 40, "{expected:?}");
        for name in expected {
            let page = std::fs::read_to_string(args.folder.join(&name)).unwrap_or_default();
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
                assert!(page.contains(section), "{name} has no {section}");
            }
        }
    }
}
