//! The API key, kept out of all output.

use std::fmt;

use hyper::header::HeaderValue;

use crate::error::CliError;

/// An API key that is a valid header value.
#[derive(Clone)]
pub(crate) struct ApiKey {
    text: String,
    header: HeaderValue,
}

impl ApiKey {
    /// Parses a key; the error does not repeat it.
    pub(crate) fn new(text: &str) -> Result<Self, CliError> {
        let wrong = |_| CliError::usage("the API key has characters that a key never has");
        let mut header = HeaderValue::try_from(format!("Bearer {text}")).map_err(wrong)?;
        header.set_sensitive(true);
        Ok(Self {
            text: text.to_owned(),
            header,
        })
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Removes the key from a text, in case the server repeats it.
    pub(super) fn masked(&self, text: &str) -> String {
        text.replace(&self.text, "***")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey::new("canary").unwrap();
        assert!(!format!("{key:?} {:?}", key.header()).contains("canary"));
        assert_eq!(key.masked("no canary here"), "no *** here");
        let error = ApiKey::new("canary\n").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
