//! The meaning of an answer's status: the table of the protocol page as one pure function.

use clinch_core::Applied;
use clinch_core::policy::Safety;
use hyper::StatusCode;

/// A route's settings about statuses.
#[derive(Debug, Clone)]
pub(crate) struct StatusRules {
    pub duplicate_status: Vec<u16>,
    pub unavailable_is_clean: bool,
    pub safety: Safety,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The provider applied the call, now or before.
    Done,
    /// Not settled: retry later.
    Later(Applied),
    /// A redirect. Not settled, and never followed.
    Redirect,
    /// The provider refused for good.
    Refused,
}

impl StatusRules {
    pub(crate) fn meaning(&self, status: StatusCode) -> Meaning {
        let is_keyed = matches!(self.safety, Safety::Keyed { .. });
        match status.as_u16() {
            code if self.duplicate_status.contains(&code) => Meaning::Done,
            200..=299 => Meaning::Done,
            // A 303 may follow an applied POST.
            300..=399 => Meaning::Redirect,
            425 | 429 => Meaning::Later(Applied::No),
            503 if self.unavailable_is_clean => Meaning::Later(Applied::No),
            408 => Meaning::Later(Applied::Unknown),
            // The call is in progress at the provider, under the same key.
            409 if is_keyed => Meaning::Later(Applied::Unknown),
            400..=499 => Meaning::Refused,
            _ => Meaning::Later(Applied::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_status_means_what_the_protocol_says() {
        let keyed = Safety::Keyed {
            ttl: Duration::from_secs(3_600),
            remembers_refusals: false,
        };
        for (safety, is_clean, is_mapped) in [
            (keyed, false, false),
            (keyed, true, true),
            (Safety::Natural, false, false),
            (Safety::Unsafe, true, false),
            (Safety::Unsafe, false, true),
        ] {
            let reading = StatusRules {
                duplicate_status: if is_mapped {
                    vec![409, 422]
                } else {
                    Vec::new()
                },
                unavailable_is_clean: is_clean,
                safety,
            };
            for code in 100..=999 {
                let expected = match code {
                    200..=299 => Meaning::Done,
                    409 | 422 if is_mapped => Meaning::Done,
                    409 if safety == keyed => Meaning::Later(Applied::Unknown),
                    300..=399 => Meaning::Redirect,
                    425 | 429 => Meaning::Later(Applied::No),
                    503 if is_clean => Meaning::Later(Applied::No),
                    408 | 100..=199 | 500..=999 => Meaning::Later(Applied::Unknown),
                    _ => Meaning::Refused,
                };
                let status = StatusCode::from_u16(code).expect("a status");
                assert_eq!(reading.meaning(status), expected, "{code} {safety:?}");
            }
        }
    }
}
