//! `cargo xtask mutants`: the simulation finds every planted bug.
//!
//! Bugs that a port can make are decorators in `crates/sim/src/bugs.rs`. The others are source
//! patches in `crates/sim/bugs.toml`, applied one at a time to a copy of the workspace. For each
//! bug the simulation plays seeds until a promise breaks; the same seed must break none without
//! the bug.
//!
//! `cargo xtask sim --seed S --bug NAME` replays a port's bug. For a patch, name it alone
//! (`cargo xtask mutants NAME`); `target/mutants/target/patched --seed S` replays it then.

mod patches;
mod workspace;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use crate::Failure;
use crate::tidy::tree::Tree;
use patches::Patch;
use workspace::Workspace;

/// Twenty times the seeds that the slowest bug needs.
const SEEDS: u64 = 5_000;

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let start = Instant::now();
    let asked = Asked::parse(arguments)?;
    let failed = |error| Failure::Failed(format!("cannot copy the workspace: {error}"));
    let tree = Tree::load(root).map_err(failed)?;
    let patches = patches::load(&tree).map_err(Failure::Failed)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let workspace = Workspace::mirror(&tree, &root.join(target).join("mutants")).map_err(failed)?;
    let sound = workspace.build("sound").map_err(Failure::Failed)?;
    let port_bugs = names_of_port_bugs(&sound).map_err(Failure::Failed)?;
    let port_bugs = port_bugs.iter().map(|name| Bug::Port(name));
    let all: Vec<Bug> = port_bugs.chain(patches.iter().map(Bug::Patch)).collect();
    let bugs = asked.choose(&all)?;

    let mut found: Vec<(u64, &str)> = Vec::new();
    for bug in &bugs {
        let name = bug.name();
        match find(&workspace, &tree, &sound, bug, asked.seeds) {
            Ok((seed, promise)) => {
                let tried = seed + 1;
                println!("{tried:>6} seeds  {name}: {promise}");
                found.push((tried, name));
            }
            Err(problem) => println!("NOT FOUND  {name}: {problem}"),
        }
    }
    let (tried, slowest) = found.iter().max().copied().unwrap_or_default();
    println!(
        "{} of {} planted bugs found in {:.0} s; the slowest, {slowest}, after {tried} seeds",
        found.len(),
        bugs.len(),
        start.elapsed().as_secs_f64(),
    );
    if found.len() == bugs.len() {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

/// A planted bug.
enum Bug<'a> {
    /// The simulation decorates a port; this is its name for the bug.
    Port(&'a str),
    Patch(&'a Patch),
}

impl Bug<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Port(name) => name,
            Self::Patch(patch) => &patch.name,
        }
    }
}

/// The parsed command line.
struct Asked {
    seeds: u64,
    /// Empty: every bug.
    names: Vec<String>,
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let (seeds, names) = match arguments {
            [flag, seeds, names @ ..] if flag == "--seeds" => (seeds.parse().ok(), names),
            names => (Some(SEEDS), names),
        };
        match seeds {
            Some(seeds) if names.iter().all(|name| !name.starts_with('-')) => Ok(Self {
                seeds,
                names: names.to_vec(),
            }),
            _ => Err(Failure::Usage("mutants takes [--seeds N] [NAME …]".into())),
        }
    }

    /// The requested bugs.
    fn choose<'a>(&self, all: &'a [Bug<'a>]) -> Result<Vec<&'a Bug<'a>>, Failure> {
        let names: Vec<&str> = all.iter().map(Bug::name).collect();
        let is_unknown = |name: &&String| !names.contains(&name.as_str());
        if let Some(name) = self.names.iter().find(is_unknown) {
            let names = names.join(", ");
            let message = format!("there is no planted bug `{name}`; known bugs: {names}");
            return Err(Failure::Usage(message));
        }
        let is_asked = |bug: &&Bug| self.names.iter().any(|name| name == bug.name());
        let asked = all
            .iter()
            .filter(|bug| self.names.is_empty() || is_asked(bug));
        Ok(asked.collect())
    }
}

/// The first seed that finds a bug, and the broken promise.
fn find(
    workspace: &Workspace,
    tree: &Tree,
    sound: &Path,
    bug: &Bug,
    seeds: u64,
) -> Result<(u64, String), String> {
    let mut sim = match bug {
        Bug::Port(name) => {
            let mut sim = Command::new(sound);
            sim.args(["--bug", name]);
            sim
        }
        Bug::Patch(patch) => {
            let patched = patch.apply(tree)?;
            let built = workspace.with(tree, &patched, || workspace.build("patched"));
            Command::new(built?)
        }
    };
    let output = output(sim.args(["--find", &seeds.to_string()]))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (seed, promise) = parse_found(&said)
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{said} ({})", output.status))?;
    is_sound_at(sound, seed)?;
    Ok((seed, promise))
}

/// `seed 7: promise`.
fn parse_found(said: &str) -> Option<(u64, String)> {
    let (seed, promise) = said.strip_prefix("seed ")?.split_once(": ")?;
    Some((seed.parse().ok()?, promise.to_owned()))
}

/// Checks that the seed breaks no promise of the unchanged engine, so that it was the bug that was
/// found.
fn is_sound_at(sound: &Path, seed: u64) -> Result<(), String> {
    let mut sim = Command::new(sound);
    let played = output(sim.args(["--seeds", "1", "--from", &seed.to_string()]))?;
    if played.status.success() {
        Ok(())
    } else {
        Err(format!("seed {seed} breaks a promise without the bug too"))
    }
}

fn names_of_port_bugs(sound: &Path) -> Result<Vec<String>, String> {
    let listed = output(Command::new(sound).arg("--bugs"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    if names.is_empty() {
        return Err("the simulation names no bugs of ports".to_owned());
    }
    Ok(names.lines().map(str::to_owned).collect())
}

fn output(command: &mut Command) -> Result<Output, String> {
    let output = command.output();
    output.map_err(|error| format!("cannot start the simulation: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Asked> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Asked::parse(&arguments).ok()
    }

    fn chosen(names: &[&str]) -> Option<Vec<String>> {
        let all = [Bug::Port("A"), Bug::Port("B")];
        let chosen = parse(names)?.choose(&all).ok()?;
        Some(chosen.iter().map(|bug| bug.name().to_owned()).collect())
    }

    #[test]
    fn bugs_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap(), ["A", "B"]);
        assert_eq!(chosen(&["--seeds", "7", "B"]).unwrap(), ["B"]);
        assert_eq!(chosen(&["C"]), None);
        assert_eq!(parse(&["--seeds", "7"]).unwrap().seeds, 7);
        assert!(parse(&["--seeds"]).is_none());
        assert!(parse(&["--seeds", "many"]).is_none());
    }

    #[test]
    fn a_found_bug_is_told_by_its_seed_and_its_promise() {
        assert_eq!(parse_found("seed 7: a: b"), Some((7, "a: b".to_owned())));
        assert_eq!(parse_found("no promise breaks in 5 seeds"), None);
    }
}
