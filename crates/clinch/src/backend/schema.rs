//! Where the schema of a database stands.

/// One step of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The version that the step leads to.
    pub number: usize,
    /// What the step is called.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

/// Where the schema of a database stands.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The version of the database; `None`: there is no database yet.
    pub version: Option<usize>,
    /// The version of this release.
    pub known: usize,
    /// The missing steps, in order.
    pub pending: Vec<Step>,
}

impl Schema {
    /// The schema of a database on a server: one without any step does not exist yet.
    #[cfg(any(feature = "postgres", feature = "mysql", test))]
    pub(super) fn on_server(known: usize, pending: Vec<Step>) -> Self {
        let version = known - pending.len().min(known);
        Self {
            version: (version > 0).then_some(version),
            known,
            pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_any_step_does_not_exist_yet() {
        let step = Step {
            number: 1,
            name: "tables",
            sql: "",
        };
        assert_eq!(Schema::on_server(1, vec![step]).version, None);
        assert_eq!(Schema::on_server(1, Vec::new()).version, Some(1));
    }
}
