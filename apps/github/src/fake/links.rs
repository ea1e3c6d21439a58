//! How `Link` headers are written.

use std::borrow::Cow;

use crate::ApiAnswer;

/// The form of `Link` headers. The first four lead to the same pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// One header with the origin as it is.
    #[default]
    Plain,
    /// Scheme and host in upper case.
    UpperCase,
    /// With the scheme's default port, if the origin has no port.
    DefaultPort,
    /// Two header lines: the first link, and the others.
    TwoLines,
    /// To an alias: the same API under another name, which a token must not be sent to.
    OtherHost,
    /// `https` instead of `http`, or the other way round.
    OtherScheme,
}

impl Links {
    /// The origin that links begin with.
    pub(super) fn origin(self, base: &str) -> Cow<'_, str> {
        let (scheme, host) = base.split_once("://").unwrap_or(("http", base));
        let port = default_port(scheme);
        let has_port = || {
            let (_, end) = host.rsplit_once(':').unwrap_or_default();
            !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit())
        };
        match self {
            Self::UpperCase => Cow::Owned(base.to_ascii_uppercase()),
            Self::DefaultPort if !has_port() => Cow::Owned(format!("{base}:{port}")),
            Self::OtherHost => Cow::Owned(format!("{scheme}://alias.{host}")),
            Self::OtherScheme if scheme == "https" => Cow::Owned(format!("http://{host}")),
            Self::OtherScheme => Cow::Owned(format!("https://{host}")),
            Self::Plain | Self::DefaultPort | Self::TwoLines => Cow::Borrowed(base),
        }
    }

    /// The lines of the answer's headers.
    pub(super) fn header_lines(self, answer: &ApiAnswer) -> Vec<(String, String)> {
        let mut lines = Vec::with_capacity(answer.headers.len() + 1);
        for (name, value) in &answer.headers {
            let both = value.split_once(", ");
            match both.filter(|_| self == Self::TwoLines && name == "link") {
                Some((first, others)) => {
                    lines.push((name.clone(), first.to_owned()));
                    lines.push((name.clone(), others.to_owned()));
                }
                None => lines.push((name.clone(), value.clone())),
            }
        }
        lines
    }
}

fn default_port(scheme: &str) -> u16 {
    match scheme {
        "https" => 443,
        _ => 80,
    }
}

/// Path and query of an address at this origin, whose case and default port do not matter.
pub(super) fn target<'a>(url: &'a str, base: &str) -> Option<&'a str> {
    let (origin, rest) = url.split_at_checked(base.len())?;
    let (scheme, _) = base.split_once("://")?;
    let port = format!(":{}/", default_port(scheme));
    let rest = match rest.starts_with(&port) {
        true => rest.get(port.len() - 1..)?,
        false => rest,
    };
    (origin.eq_ignore_ascii_case(base) && rest.starts_with('/')).then_some(rest)
}
