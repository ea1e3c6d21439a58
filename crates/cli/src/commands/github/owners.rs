//! Whose data `clinch github run` collects: that of the named user, or of each owner in a list of
//! repositories. A run collects one user, so that a command may begin several.

use clinch_github::Selection;

use crate::error::CliError;

/// A user, and the repositories that the user's run reads; none: as the settings say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) login: String,
    pub(crate) repositories: Vec<String>,
}

/// The owners of these repositories, in the order of the list. Everything is checked before a run of
/// one of them begins.
pub(crate) fn by_owner(repositories: &[String]) -> Result<Vec<Target>, CliError> {
    let mut targets: Vec<Target> = Vec::new();
    for name in repositories {
        let Some((owner, _)) = name.split_once('/') else {
            let message = format!(
                "{name:?} has no owner: write OWNER/NAME, or name the user before --repositories"
            );
            return Err(CliError::usage(message));
        };
        let mut known = targets.iter_mut();
        // GitHub ignores case.
        match known.find(|one| one.login.eq_ignore_ascii_case(owner)) {
            Some(target) => target.repositories.push(name.clone()),
            None => targets.push(Target {
                login: owner.to_owned(),
                repositories: vec![name.clone()],
            }),
        }
    }
    for target in &targets {
        Selection::new(&target.login, &target.repositories, None)
            .map_err(|wrong| CliError::usage(wrong.to_string()))?;
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(names: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let targets = by_owner(&names).map_err(|error| error.to_string())?;
        let parts = |one: Target| (one.login, one.repositories);
        Ok(targets.into_iter().map(parts).collect())
    }

    #[test]
    fn col_3_repositories_are_grouped_by_their_owners() {
        let text = |text: &str| text.to_owned();
        let expected = vec![
            (text("Acme"), vec![text("Acme/api"), text("acme/web")]),
            (text("octocat"), vec![text("octocat/hello")]),
        ];
        let names = ["Acme/api", "octocat/hello", "acme/web"];
        assert_eq!(owners(&names), Ok(expected));
    }

    #[test]
    fn col_3_a_name_without_an_owner_begins_nothing() {
        for (wrong, word) in [
            ("api", "OWNER/NAME"),
            ("", "OWNER/NAME"),
            ("/api", "OWNER/NAME"),
            ("acme/a b", "OWNER/NAME"),
            ("acme/api/1", "OWNER/NAME"),
        ] {
            let error = owners(&["octocat/hello", wrong]).expect_err(wrong);
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }
}
