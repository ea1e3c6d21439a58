//! `clinch init`: a first configuration that teaches the keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  clinch init
  clinch init shop
  clinch init --force
  clinch init --config /etc/clinch/clinch.toml

Writes clinch.toml, or the file that --config or CLINCH_CONFIG names: one route to `clinch echo`,
and commented examples of a payment route. An existing file is left alone (exit 4) unless --force
replaces it.";

/// The configuration that is written. Lines that begin with `# ` explain; lines that begin with `#`
/// and no space are examples, which a test enables.
const TEMPLATE: &str = include_str!("init/clinch.toml");

/// The name that every command looks for in its working folder.
const FILE: &str = "clinch.toml";

/// A first call of the route in [`TEMPLATE`].
const CURL: &str = "curl -i localhost:7070/v1/operations -H 'content-type: application/json' \
                    -H 'Prefer: wait=10' -d '{\"domain\":\"demo\",\"event_type\":\"hello\",\
                    \"biz_key\":\"order-123\",\"idem_key\":\"c0ffee\",\"payload\":{\"name\":\"Ada\"}}'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of clinch.toml, created if it does not exist; otherwise this one
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Writes the file and says how to go on.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let (path, serve) = target(args.folder.as_deref(), global.config.as_deref())?;
    let failed =
        |error: io::Error| CliError::failed(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    match args.force {
        true => replace(&path).map_err(failed)?,
        false => match File::create_new(&path) {
            Ok(mut file) => write(&mut file).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(CliError::Exists(format!(
                    "{} exists and was not changed; --force replaces it",
                    path.display()
                )));
            }
            Err(error) => return Err(failed(error)),
        },
    }
    let document = json!({
        "file": path.display().to_string(),
        "next": ["clinch echo", serve, CURL],
    });
    let lines = [
        format!("wrote {}", path.display()),
        String::new(),
        "Next, each in a terminal of its own:".to_owned(),
        "  clinch echo".to_owned(),
        format!("  {serve}"),
        format!("  {CURL}"),
    ];
    Output::stdout(global.output, !global.no_color).answer(&document, &lines)?;
    Ok(Exit::Ok)
}

/// The file to write, and the command whose server reads it.
fn target(folder: Option<&Path>, config: Option<&Path>) -> Result<(PathBuf, String), CliError> {
    let config = config.filter(|file| !file.as_os_str().is_empty());
    let folder = folder.filter(|folder| *folder != Path::new("."));
    Ok(match (folder, config) {
        (Some(folder), Some(file)) => {
            return Err(CliError::usage(format!(
                "two files to write: {} of DIR, and {} of --config or CLINCH_CONFIG; name one",
                folder.join(FILE).display(),
                file.display()
            )));
        }
        (None, Some(file)) => {
            let serve = format!("clinch serve --config {}", quoted(file));
            (file.to_owned(), serve)
        }
        (Some(folder), None) => {
            let serve = format!("cd {} && clinch serve", quoted(folder));
            (folder.join(FILE), serve)
        }
        (None, None) => (PathBuf::from(FILE), "clinch serve".to_owned()),
    })
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn write(file: &mut File) -> io::Result<()> {
    file.write_all(TEMPLATE.as_bytes())?;
    file.sync_all()
}

/// Replaces the file at once: a crash leaves the old file or the new one.
fn replace(path: &Path) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&beside)?;
    write(&mut file)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use clinch_server::Config;
    use clinch_server::config::Sources;

    use super::*;

    /// The template with its examples enabled.
    fn enabled() -> String {
        let lines = TEMPLATE.lines().map(|line| {
            let example = line.strip_prefix('#');
            example
                .filter(|rest| !rest.is_empty() && !rest.starts_with(' '))
                .unwrap_or(line)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn core_19_the_first_configuration_is_valid_with_and_without_its_examples() {
        let config = Config::parse(TEMPLATE, &Sources::default(), &[]).expect("valid");
        let route = &config.route[0];
        assert_eq!(config.route.len(), 1);
        assert_eq!(
            (route.domain.as_str(), route.event_type.as_str()),
            ("demo", "hello")
        );
        assert_eq!(route.destination_name(), super::super::echo::LISTEN);
        let whole = Config::parse(&enabled(), &Sources::default(), &[]).expect("valid");
        assert_eq!(whole.route.len(), 2);
        assert!(whole.route[1].probe.is_some(), "the example has a probe");
        assert_eq!(
            whole.server,
            Config::default().server,
            "examples show the defaults"
        );
        assert_eq!(
            whole.store,
            Config::default().store,
            "examples show the defaults"
        );
    }

    #[test]
    fn the_printed_command_reads_the_file_that_is_written() {
        fn told(folder: Option<&str>, config: Option<&str>) -> Option<(String, String)> {
            let (path, serve) = target(folder.map(Path::new), config.map(Path::new)).ok()?;
            Some((path.display().to_string(), serve))
        }
        let expected = |path: &str, serve: &str| Some((path.to_owned(), serve.to_owned()));
        let here = expected("clinch.toml", "clinch serve");
        assert_eq!(told(None, None), here);
        assert_eq!(told(Some("."), Some("")), here);
        let shop = expected("Ada's/clinch.toml", r"cd 'Ada'\''s' && clinch serve");
        assert_eq!(told(Some("Ada's"), None), shop);
        let named = expected("a b.toml", "clinch serve --config 'a b.toml'");
        assert_eq!(told(None, Some("a b.toml")), named);
        assert_eq!(told(Some("."), Some("a b.toml")), named);
        assert_eq!(told(Some("shop"), Some("a b.toml")), None);
    }

    #[test]
    fn the_first_call_is_one_of_the_route() {
        let (_, body) = CURL.split_once("-d '").expect("a body");
        let body: serde_json::Value =
            serde_json::from_str(body.trim_end_matches('\'')).expect("JSON");
        assert_eq!(
            (body["domain"].as_str(), body["event_type"].as_str()),
            (Some("demo"), Some("hello"))
        );
        assert!(TEMPLATE.lines().all(|line| line.chars().count() <= 100));
    }
}
