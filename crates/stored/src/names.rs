//! Lists of names in one column.

use std::fmt::Display;
use std::str::FromStr;

use clinch_core::ports::Restriction;
use clinch_core::{Invalid, Result};

use crate::error::unreadable;

/// Names joined by commas. No name contains a comma.
pub fn joined<T: Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The inverse of [`joined`].
pub fn split<T: FromStr<Err = Invalid>>(text: &str) -> Result<Vec<T>> {
    let names = text.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.parse().map_err(unreadable)).collect()
}

/// The restriction that is stored in these two columns.
pub fn restriction(domains: &str, event_types: &str) -> Result<Restriction> {
    Ok(Restriction {
        domains: split(domains)?,
        event_types: split(event_types)?,
    })
}

#[cfg(test)]
mod tests {
    use clinch_core::Domain;

    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let domain = |name: &str| Domain::new(name).expect("a name");
        let both = vec![domain("pay"), domain("mail:eu")];
        assert_eq!(joined(&both), "pay,mail:eu");
        assert_eq!(split::<Domain>("pay,mail:eu").ok(), Some(both));
        assert_eq!(split::<Domain>("").ok(), Some(Vec::new()));
        assert!(split::<Domain>("no name").is_err());
    }
}
