//! Sections of applications. The server reads, checks and prints them, and does not know what their
//! keys mean.

use std::collections::BTreeMap;

use clinch::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::known::Kind;
use super::{not_valid, wrong};

/// A section that an application declares: `[name]`.
pub struct Section {
    pub(super) name: &'static str,
    secrets: &'static [&'static str],
    defaults: Table,
    read: Box<Reader>,
}

/// From the written values to all values and the contradictions among them.
type Reader =
    dyn Fn(Value) -> std::result::Result<(Table, Vec<String>), toml::de::Error> + Send + Sync;

impl Section {
    /// A section that `T` holds. Its keys are the fields of the default `T`, so a field must not be
    /// `None` by default.
    ///
    /// - `secrets` are the keys whose values are masked where the configuration is shown.
    /// - `problems` lists contradictions, each as one line that names the key with its section and
    ///   says what to do.
    pub fn new<T>(
        name: &'static str,
        secrets: &'static [&'static str],
        problems: fn(&T) -> Vec<String>,
    ) -> Result<Self>
    where
        T: Default + Serialize + DeserializeOwned + 'static,
    {
        let table = |values: &T| Table::try_from(values);
        let unwritable = |error| wrong(format!("the defaults of [{name}] are not TOML: {error}"));
        let read = move |written| {
            // By its name, so that an error names the key with its section.
            let written = Table::from_iter([(name.to_owned(), written)]);
            let mut read: BTreeMap<String, T> = written.try_into()?;
            let values = read.remove(name).unwrap_or_default();
            let all = table(&values).map_err(serde::de::Error::custom)?;
            Ok((all, problems(&values)))
        };
        Ok(Self {
            name,
            secrets,
            defaults: table(&T::default()).map_err(unwritable)?,
            read: Box::new(read),
        })
    }

    pub(super) fn keys(&self) -> Vec<(&str, Kind<'static>)> {
        let kind = |value: &Value| match value {
            Value::String(_) => Kind::Text,
            _ => Kind::Other,
        };
        let keys = self.defaults.iter();
        keys.map(|(key, default)| (key.as_str(), kind(default)))
            .collect()
    }
}

/// A section that some source has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SectionValues {
    /// Every key, with its default where no source sets it.
    pub(super) table: Table,
    pub(super) secrets: &'static [&'static str],
    problems: Vec<String>,
}

impl SectionValues {
    pub(super) fn get<T: DeserializeOwned>(&self) -> Result<T> {
        let values = self.table.clone().try_into();
        values.map_err(|error| not_valid(&error))
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = Error> {
        self.problems.iter().cloned().map(wrong)
    }
}

/// Takes the sections of applications out of the table and reads them.
pub(super) fn take(
    table: &mut Table,
    sections: &[Section],
) -> Result<BTreeMap<&'static str, SectionValues>> {
    let mut taken = BTreeMap::new();
    for section in sections {
        let Some(written) = table.remove(section.name) else {
            continue;
        };
        let (table, problems) = (section.read)(written).map_err(|error| not_valid(&error))?;
        let values = SectionValues {
            table,
            secrets: section.secrets,
            problems,
        };
        taken.insert(section.name, values);
    }
    Ok(taken)
}
