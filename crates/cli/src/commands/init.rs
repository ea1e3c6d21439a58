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

Writes clinch.toml: one route to `clinch echo`, and commented examples of a payment route. An
existing file is left alone (exit 4) unless --force replaces it.";

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
    /// Folder of the file; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Writes the file and says how to go on.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let path = match args.folder == Path::new(".") {
        true => PathBuf::from(FILE),
        false => args.folder.join(FILE),
    };
    let failed =
        |error: io::Error| CliError::failed(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(&args.folder).map_err(failed)?;
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
    let folder = args.folder.display();
    let serve = match args.folder == Path::new(".") {
        true => "clinch serve".to_owned(),
        false => format!("cd '{folder}' && clinch serve"),
    };
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

fn write(file: &mut File) -> io::Result<()> {
    file.write_all(TEMPLATE.as_bytes())?;
    file.sync_all()
}

/// Replaces the file at once: a crash leaves the old file or the new one.
fn replace(path: &Path) -> io::Result<()> {
    let beside = path.with_extension("toml.new");
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
