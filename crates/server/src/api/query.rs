//! Query parameters; every parameter must be known and may be given once.

use clinch_core::Timestamp;

use super::problem::Problem;
use super::time;

/// Parameters that have not been taken yet.
pub(crate) struct QueryParameters(Vec<(String, String)>);

fn refuse(name: &str, problem: &str) -> Problem {
    Problem::request(format!("{name} {problem}")).field(name)
}

impl QueryParameters {
    /// Refuses a parameter that is given twice. An empty value counts as absent.
    pub(crate) fn new(mut pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(refuse(twice[0], "is given twice"));
        }
        pairs.retain(|(_, value)| !value.is_empty());
        Ok(Self(pairs))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A value, parsed.
    pub(crate) fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, clinch_core::Invalid>,
    ) -> Result<Option<T>, Problem> {
        let value = self.take(name).map(parse).transpose();
        value.map_err(|invalid| Problem::invalid("invalid_request", &invalid))
    }

    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        // A `+` in an offset that was not percent-encoded arrives as a space.
        let at = time::read(&text).or_else(|| time::read(&text.replace(' ', "+")));
        at.map(Some)
            .ok_or_else(|| refuse(name, "must be a timestamp such as 2026-11-15T08:00:00Z"))
    }

    /// Items of a page: by default 50, at most 1,000.
    pub(crate) fn limit(&mut self) -> Result<usize, Problem> {
        const DEFAULT: usize = 50;
        const MAX: usize = 1_000;
        let Some(text) = self.take("limit") else {
            return Ok(DEFAULT);
        };
        match text.parse::<usize>() {
            Ok(limit) if limit > 0 => Ok(limit.min(MAX)),
            _ => Err(refuse("limit", "must be a whole number from 1 to 1000")),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(refuse(name, "must be true or false")),
        }
    }

    /// Refuses unknown parameters: a filter that is silently ignored would show too much.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.into_iter().next() {
            Some((name, _)) => {
                let short: String = name.chars().take(64).collect();
                Err(refuse(&short, "is not a known parameter"))
            }
            None => Ok(()),
        }
    }
}
