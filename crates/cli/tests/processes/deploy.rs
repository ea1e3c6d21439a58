//! The files of `deploy/` against the program: their variables, flags, services and syntax.

use std::path::{Path, PathBuf};
use std::process::Command;

use clinch_testbed::{readers_environment, readers_missing};

use crate::support::{Folder, clinch, text};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(path: &Path) -> String {
    let read = std::fs::read_to_string(path);
    assert!(read.is_ok(), "{}: {read:?}", path.display());
    read.expect("it was read")
}

fn compose_files() -> Vec<PathBuf> {
    let listed = std::fs::read_dir(deploy().join("compose")).expect("deploy/compose");
    let mut files: Vec<PathBuf> = listed
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// From the sources of a clone, and from the program of a release archive.
const CONTAINERFILES: [&str; 2] = ["Containerfile", "Containerfile.binary"];

/// The variables of a file that set configuration keys, with their values.
fn variables(text: &str) -> Vec<(String, String)> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let found = lines.filter_map(|line| {
        let line = &line[line.find("CLINCH__")?..];
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (name, value) = line.split_at(line.find(|letter| !is_name(letter))?);
        Some((
            name.to_owned(),
            value.trim_start_matches([':', '=', ' ']).trim().to_owned(),
        ))
    });
    found.collect()
}

/// Runs `clinch serve --print-config` with these variables.
fn printed(variables: &[(String, String)]) -> (Option<i32>, String, String) {
    let folder = Folder::new("deploy");
    let mut command = clinch(&folder.0);
    command.args(["serve", "--log", "json", "--print-config"]);
    let output = command
        .envs(variables.iter().cloned())
        .output()
        .expect("it runs");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn every_variable_of_the_deploy_files_is_a_configuration_key() {
    let mut files = compose_files();
    files.extend(CONTAINERFILES.map(|name| deploy().join(name)));
    for file in files {
        let found = variables(&read(&file));
        assert!(!found.is_empty(), "{}", file.display());
        let (code, shown, said) = printed(&found);
        assert_eq!(code, Some(0), "{}: {said}", file.display());
        for (name, value) in found {
            // The printed configuration shows addresses without their password.
            let host = value.rsplit('@').next().unwrap_or(&value);
            let host = host
                .trim_start_matches("redis://")
                .trim_start_matches("nats://");
            assert!(shown.contains(host), "{name} = {value}: {shown}");
        }
    }
    let wrong = [("CLINCH__STORE__ULR".to_owned(), "memory:".to_owned())];
    let (code, _, said) = printed(&wrong);
    assert!(
        code != Some(0) && said.contains("store.url"),
        "{code:?} {said}"
    );
}

/// Names at one depth below a top-level key, such as the services of a compose file.
fn below<'a>(text: &'a str, section: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(section));
    if let Some(inline) = lines.next().and_then(|line| line.split_once('{')) {
        let names = inline.1.trim_end_matches('}').split(',');
        return names
            .filter_map(|name| name.split(':').next())
            .map(str::trim)
            .collect();
    }
    let inside =
        lines.take_while(|line| line.starts_with(' ') || line.trim_start().starts_with('#'));
    let names = inside.filter(|line| line.starts_with("  ") && !line[2..].starts_with([' ', '#']));
    names
        .filter_map(|name| name.trim().strip_suffix(':'))
        .collect()
}

/// How a compose file gives the configuration to the program. A relative path begins at the file's folder.
const CONFIGURATION: &str = "${CLINCH_CONFIG_FOLDER:-../../config}:/etc/clinch:ro";

#[test]
fn the_services_and_volumes_of_a_compose_file_are_those_that_it_names() {
    for file in compose_files() {
        let whole = read(&file);
        let (services, volumes) = (below(&whole, "services:"), below(&whole, "volumes:"));
        let shown = file.display();
        assert!(services.contains(&"clinch"), "{shown}: {services:?}");
        for (name, value) in variables(&whole)
            .iter()
            .filter(|(name, _)| name.ends_with("URL"))
        {
            let host = value
                .rsplit(['@', '/'])
                .find(|part| services.contains(&part.split(':').next().unwrap_or(part)));
            assert!(host.is_some(), "{shown}: no service of {name} = {value}");
        }
        let lines = whole.lines().map(str::trim);
        for line in lines.filter(|line| line.starts_with("volumes: [\"")) {
            let mounts = line.split('"').skip(1).step_by(2);
            for mount in mounts.filter(|mount| *mount != CONFIGURATION) {
                let volume = mount.split(':').next().unwrap_or(mount);
                assert!(volumes.contains(&volume), "{shown}: {line}");
            }
        }
        assert_eq!(whole.matches(CONFIGURATION).count(), 1, "{shown}");
        let context = whole.contains("context: ../.., dockerfile: deploy/Containerfile");
        assert!(context, "{shown} builds another image");
    }
}

#[test]
fn both_images_are_the_same_but_for_where_the_program_comes_from() {
    let images = CONTAINERFILES.map(|name| read(&deploy().join(name)));
    let [clone, archive] = images.each_ref().map(|image| {
        let lines = image.lines().filter(|line| !line.starts_with('#'));
        let last = lines.skip_while(|line| !line.starts_with("FROM debian:"));
        last.collect::<Vec<_>>()
    });
    let only = |ours: &[&str], theirs: &[&str]| -> Vec<String> {
        let own = ours.iter().filter(|line| !theirs.contains(line));
        own.map(|line| (*line).to_owned()).collect()
    };
    assert_eq!(
        only(&clone, &archive),
        ["COPY --from=build /src/target/dist/clinch /usr/local/bin/clinch"]
    );
    assert_eq!(
        only(&archive, &clone),
        [
            "COPY clinch /usr/local/bin/clinch",
            "RUN [\"clinch\", \"--version\"]"
        ]
    );
}

#[test]
fn an_image_is_built_without_build_output_and_history() {
    let root = deploy().join("..");
    let ignored = read(&root.join(".dockerignore"));
    let ignored: Vec<&str> = ignored.lines().collect();
    // A pattern of .gitignore without a slash holds at any depth, one of .dockerignore does not.
    let of_git = read(&root.join(".gitignore"));
    let of_git = of_git.lines().map(|line| match line.strip_prefix('/') {
        Some(at_the_root) => at_the_root.to_owned(),
        None => format!("**/{line}"),
    });
    let missing: Vec<String> = [".git", "target"]
        .map(str::to_owned)
        .into_iter()
        .chain(of_git)
        .filter(|pattern| !ignored.contains(&pattern.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?} {ignored:?}");
    // The flags of the compiler, and the members of the workspace.
    for needed in [
        ".cargo",
        "Cargo.lock",
        "apps",
        "benches",
        "crates",
        "docs",
        "examples",
        "xtask",
    ] {
        assert!(root.join(needed).exists(), "{needed}");
        assert!(
            !ignored.iter().any(|pattern| pattern.ends_with(needed)),
            "{needed}"
        );
    }
}

/// Where `CI` is set, every tool was installed before: a check that cannot run has failed.
fn ignored(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("ignored: {why}");
}

#[test]
fn every_yaml_file_of_deploy_can_be_parsed() {
    if let Some(why) = readers_missing() {
        return ignored(&why);
    }
    let parses = "import sys, yaml\nfor path in sys.argv[1:]:\n    assert isinstance(yaml.safe_load(open(path)), dict), path\n";
    let parse = |files: &[PathBuf]| {
        let mut python = Command::new(readers_environment().join("bin/python"));
        let output = python.arg("-c").arg(parses).args(files).output();
        let output = output.expect("it runs");
        (output.status.success(), text(&output.stderr))
    };
    let mut files = compose_files();
    files.extend(["alerts.yml", "alerts-github.yml"].map(|name| deploy().join(name)));
    let (is_parsed, said) = parse(&files);
    assert!(is_parsed, "{said}");
    let folder = Folder::new("yaml");
    let broken = folder.0.join("broken.yaml");
    std::fs::write(&broken, "services: { clinch: [\n").expect("a file");
    let (is_parsed, said) = parse(&[broken]);
    assert!(!is_parsed && said.contains("broken.yaml"), "{said}");
}

/// The value of a directive.
fn directive<'a>(unit: &'a str, name: &str) -> &'a str {
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    assert!(line.is_some(), "{name} is missing");
    line.expect("it is there")
}

#[test]
fn the_unit_starts_the_program_with_flags_that_it_has() {
    let unit = read(&deploy().join("clinch.service"));
    let mut words = directive(&unit, "ExecStart").split(' ');
    assert_eq!(words.next(), Some("/usr/local/bin/clinch"));
    let folder = Folder::new("unit");
    let config = folder.0.join("clinch.toml");
    std::fs::write(&config, "").expect("a file");
    let arguments: Vec<String> = words
        .map(|word| word.replace("/etc/clinch/clinch.toml", &config.display().to_string()))
        .collect();
    assert!(
        arguments.contains(&config.display().to_string()),
        "{arguments:?}"
    );
    let ran = clinch(&folder.0)
        .args(&arguments)
        .arg("--print-config")
        .output();
    let ran = ran.expect("it runs");
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    // A stop is waited for longer than the program takes at most.
    let seconds = |text: &str| {
        text.trim_end_matches('s')
            .trim_matches('"')
            .parse::<u32>()
            .ok()
    };
    let deadline = text(&ran.stdout);
    let deadline = deadline
        .lines()
        .find_map(|line| line.trim().strip_prefix("shutdown_deadline = "));
    let deadline = deadline.and_then(|line| {
        seconds(
            line.split('#')
                .next()
                .unwrap_or(line)
                .trim()
                .trim_matches('"'),
        )
    });
    assert!(
        seconds(directive(&unit, "TimeoutStopSec")) > deadline && deadline.is_some(),
        "{deadline:?}"
    );
}

/// What a reader types: the indented lines of the comments at the head of a file.
fn typed(file: &str) -> Vec<&str> {
    let lines = file.lines().filter_map(|line| line.strip_prefix("#   "));
    lines
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .collect()
}

/// The arguments of a line's `clinch` command, whatever starts it: `sudo -u clinch clinch keys ls`.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = format!(" {line}");
    let (_, arguments) = line.rsplit_once(" clinch ")?;
    // `install -g clinch -m 0700` is about the user of this name.
    let is_command = arguments.starts_with(|letter: char| letter.is_ascii_lowercase());
    let words = arguments.split_whitespace().map(str::to_owned);
    is_command.then(|| words.collect())
}

#[test]
fn the_commands_of_a_compose_file_configure_the_server_and_make_a_key() {
    for file in compose_files() {
        let whole = read(&file);
        let typed = typed(&whole);
        let name = file.file_name().unwrap_or_default().display().to_string();
        let compose = format!("docker compose -f deploy/compose/{name} ");
        let folder = Folder::new("compose");
        // What the container finds at this path.
        let inside = whole
            .lines()
            .find_map(|line| line.trim().strip_prefix("CLINCH_CONFIG: /etc/clinch/"));
        let config = folder.0.join("config").join(inside.unwrap_or(&name));
        let mut ran = Vec::new();
        for line in &typed {
            let Some(arguments) = arguments(line) else {
                continue;
            };
            let mut command = clinch(&folder.0);
            if line.starts_with(&compose) {
                command.env("CLINCH_CONFIG", &config);
            }
            let output = command.args(&arguments).output().expect("it runs");
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            ran.push(arguments[0].clone());
        }
        assert_eq!(ran, ["init", "keys"], "{name}: {typed:#?}");
        let mut serve = clinch(&folder.0);
        serve
            .args(["serve", "--print-config"])
            .env("CLINCH_CONFIG", &config);
        let printed = text(&serve.output().expect("it runs").stdout);
        assert!(printed.contains("name = \"hello\""), "{name}: {printed}");
        let has = |command: &str| {
            let begin = format!("{compose}{command}");
            typed.iter().any(|line| line.starts_with(&begin))
        };
        assert!(has("up"), "{name}: {typed:#?}");
        // Docker chooses the port of each process.
        assert_eq!(has("ps"), whole.contains("\"127.0.0.1::7070\""), "{name}");
    }
}

#[test]
fn the_user_of_the_unit_can_read_its_secrets_and_make_keys_and_backups() {
    let unit = read(&deploy().join("clinch.service"));
    let (user, home) = (
        directive(&unit, "User"),
        directive(&unit, "WorkingDirectory"),
    );
    assert_eq!(directive(&unit, "Group"), user);
    assert_eq!(
        home,
        format!("/var/lib/{}", directive(&unit, "StateDirectory"))
    );
    let typed = typed(&unit);
    for line in [
        format!("useradd --system --user-group --home-dir {home} --shell /usr/sbin/nologin {user}"),
        format!("install -d -o {user} -g {user} -m 0700 {home}"),
        format!("install -d -o root -g {user} -m 0750 /etc/clinch/secrets"),
        format!("install -o root -g {user} -m 0640 psp_key /etc/clinch/secrets/psp_key"),
    ] {
        assert!(typed.contains(&line.as_str()), "{line}: {typed:#?}");
    }
    // A unit starts without this file; systemd fails a unit without any other file that it names.
    let environment = directive(&unit, "EnvironmentFile");
    assert_eq!(environment, "-/etc/clinch/environment");

    let folder = Folder::new("unit-user");
    let config = folder.0.join("clinch.toml");
    std::fs::write(&config, "").expect("a file");
    let as_user = format!("cd {home} && sudo -u {user} clinch ");
    let mut done = Vec::new();
    for line in typed.iter().filter(|line| line.starts_with(&as_user)) {
        let arguments = arguments(line).unwrap_or_default();
        let here = arguments
            .iter()
            .map(|word| word.replace("/etc/clinch/clinch.toml", &config.display().to_string()));
        let output = clinch(&folder.0).args(here).output().expect("it runs");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        done.push((arguments[0].clone(), text(&output.stdout)));
    }
    let commands: Vec<&str> = done.iter().map(|(command, _)| command.as_str()).collect();
    assert_eq!(commands, ["keys", "backup"], "{typed:#?}");
    assert!(!done[0].1.trim().is_empty(), "it prints the key");
    assert!(folder.0.join("clinch-backup.db").exists());
}

#[test]
fn the_guide_has_the_commands_of_the_deploy_files() {
    let page = read(&deploy().join("../docs/guide/deploying.md"));
    let lines: Vec<&str> = page.lines().map(str::trim).collect();
    for file in CONTAINERFILES
        .into_iter()
        .chain(["clinch.service", "compose/postgres.yaml"])
    {
        let whole = read(&deploy().join(file));
        let typed = typed(&whole);
        assert!(!typed.is_empty(), "{file} has no command");
        for line in typed {
            assert!(lines.contains(&line), "{file}: {line}");
        }
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = Folder::new("systemd");
    let unit = read(&deploy().join("clinch.service"));
    // systemd looks whether the program is there.
    let here = unit.replace("/usr/local/bin/clinch", env!("CARGO_BIN_EXE_clinch"));
    let verify = |name: &str, unit: &str| {
        let file = folder.0.join(name);
        std::fs::write(&file, unit).expect("a file");
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output();
        output
            .ok()
            .map(|output| (output.status.success(), text(&output.stderr)))
    };
    let Some((is_accepted, said)) = verify("clinch.service", &here) else {
        return ignored(
            "systemd-analyze is not installed; `cargo xtask servers install` installs it",
        );
    };
    assert!(is_accepted && !said.contains("clinch.service"), "{said}");
    // It only warns of a directive that it does not know.
    let wrong = here.replace("ProtectClock=", "ProtectClok=");
    let (_, said) = verify("wrong.service", &wrong).expect("it is installed");
    assert!(said.contains("ProtectClok"), "{said}");
}
