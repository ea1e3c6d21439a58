//! Commands of the pages, parsed by this program's own definition.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::{pages, shell};
use crate::args::Cli;

/// What stands for a value that only the reader knows. No other word in capitals does.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("BATCH_ID", "01917f5e-0000-7000-8000-000000000000"),
    ("COMMAND", "serve"),
    ("DIR", "folder"),
    ("DOMAIN", "payments"),
    ("FILE", "file"),
    ("ID", "01917f5e-0000-7000-8000-000000000000"),
    ("KEY_ID", "01917f5e-0000-7000-8000-000000000000"),
    ("OP_ID", "01917f5e-0000-7000-8000-000000000000"),
    ("RUN", "octocat.7"),
];

/// The arguments of a `clinch` command, with placeholders filled in. Assignments and `exec` may
/// come before the program; `"$@"`, the arguments of a script, is left out.
fn arguments(command: &[String]) -> Option<Vec<String>> {
    let is_before = |word: &&String| word.as_str() == "exec" || is_assignment(word);
    let words: Vec<&String> = command.iter().skip_while(is_before).collect();
    let words = match starts_a_program(&words) {
        // The user and the image are called `clinch` too. An image without arguments has its own.
        true => {
            let program = words.iter().rposition(|word| word.as_str() == "clinch")?;
            words.get(program..).filter(|words| words.len() > 1)?
        }
        false => &words[..],
    };
    if words.first().map(|word| word.as_str()) != Some("clinch") {
        return None;
    }
    let filled = |word: &&String| {
        // `[DIR]`: an argument that may be left out.
        let name = word.trim_start_matches('[').trim_end_matches(']');
        let known = PLACEHOLDERS
            .iter()
            .find(|(placeholder, _)| *placeholder == name);
        known.map_or_else(|| (*word).clone(), |(_, value)| (*value).to_owned())
    };
    let own = words.iter().filter(|word| word.as_str() != "$@");
    Some(own.map(filled).collect())
}

/// Whether the words are a command that starts another: as a user, or in a container.
fn starts_a_program(words: &[&String]) -> bool {
    let has = |word: &str| words.iter().any(|one| one.as_str() == word);
    match words.first().map(|word| word.as_str()) {
        Some("sudo") => has("-u"),
        Some("systemd-run") => true,
        Some("docker" | "podman") => has("run") || has("exec"),
        _ => false,
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_uppercase());
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// `clinch keys create|ls|revoke` names three commands.
fn alternatives(code: &str) -> Vec<String> {
    let choice = code.split(' ').find(|word| {
        word.contains('|')
            && word
                .split('|')
                .all(|one| one.bytes().all(|b| b.is_ascii_lowercase()) && !one.is_empty())
    });
    match choice {
        Some(choice) => choice
            .split('|')
            .map(|one| code.replace(choice, one))
            .collect(),
        None => vec![code.to_owned()],
    }
}

/// Why this program refuses the arguments.
fn refusal(arguments: &[String]) -> Option<clap::Error> {
    let parsed = Cli::command().try_get_matches_from(arguments);
    parsed.err().filter(|error| error.use_stderr())
}

/// Whether only arguments are missing: prose may name a command by its name alone.
fn is_a_name_only(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

#[test]
fn core_18_every_command_of_the_guide_parses() {
    let (mut wrong, mut parsed) = (Vec::new(), 0);
    let mut check = |place: String, text: &str, may_be_a_name: bool| {
        for command in shell::commands(text) {
            let Some(arguments) = arguments(&command) else {
                continue;
            };
            parsed += 1;
            match refusal(&arguments) {
                Some(error) if !(may_be_a_name && is_a_name_only(&error)) => {
                    wrong.push(format!("{place}: {}\n{error}", arguments.join(" ")));
                }
                _ => {}
            }
        }
    };
    for page in pages() {
        for block in page.blocks() {
            if let Some(text) = block.commands() {
                check(format!("{}:{}", page.name, block.line), &text, false);
            }
        }
        for (line, code) in page.inline() {
            for command in alternatives(&code) {
                check(format!("{}:{line}", page.name), &command, true);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 200, "{parsed} commands");
}

#[test]
fn what_this_program_does_not_take_is_found() {
    let refused = |text: &str| {
        let command = shell::commands(text).remove(0);
        refusal(&arguments(&command).expect("a clinch command"))
    };
    assert!(refused("clinch ops get OP_ID --path").is_none());
    assert!(refused("A_B=1 exec clinch init [DIR]").is_none());
    assert!(refused("clinch serve --print-confg").is_some_and(|error| !is_a_name_only(&error)));
    assert!(refused("clinch opps ls").is_some_and(|error| !is_a_name_only(&error)));
    assert!(refused("clinch ops resolve OP_ID").is_some_and(|error| is_a_name_only(&error)));
    for wrapped in [
        "sudo -u clinch clinch",
        "systemd-run --uid=clinch clinch",
        "podman run -v clinch:/data clinch",
        "docker compose -f a.yaml exec clinch clinch",
    ] {
        assert!(refused(&format!("{wrapped} keys create me")).is_none());
        assert!(refused(&format!("{wrapped} keys make me")).is_some());
    }
    for other in [
        "podman run --rm --name clinch -d clinch",
        "podman build -t clinch -f a .",
    ] {
        assert!(arguments(&shell::commands(other).remove(0)).is_none());
    }
    assert!(arguments(&["cargo".to_owned(), "clinch".to_owned()]).is_none());
    let named = alternatives("clinch keys create|ls --x");
    assert_eq!(named, ["clinch keys create --x", "clinch keys ls --x"]);
}
