//! Secrets in header values: `${env:NAME}` and `${file:PATH}`.

use std::io::Read;

/// Maximum size of a secret file, in bytes: a header holds far less, and a wrong path (a log, a
/// disk) must not be read whole.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where secrets come from. Read once, when a route is built.
pub trait Secrets: Send + Sync {
    /// The value of an environment variable, if it is set.
    fn env(&self, name: &str) -> Option<String>;

    /// The content of a file without its final line break, if the file can be read.
    fn file(&self, path: &str) -> Option<String>;
}

/// The environment and the files of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSecrets;

impl Secrets for SystemSecrets {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = std::fs::File::open(path).ok()?;
        let read = file
            .take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .ok()?;
        if read as u64 > FILE_BYTES_MAX {
            return None;
        }
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Some(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }
}

/// Resolves a configuration value: `${env:NAME}` and `${file:PATH}` are looked up, other text is
/// the value itself. The error names the missing secret and never shows a value.
pub fn reveal(text: &str, secrets: &dyn Secrets) -> Result<String, String> {
    let reference = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    match reference {
        Some(reference) => resolve(reference, secrets),
        None => Ok(text.to_owned()),
    }
}

/// The value of `env:NAME` or `file:PATH`. The error names the reference and never shows the value.
pub(crate) fn resolve(reference: &str, secrets: &dyn Secrets) -> Result<String, String> {
    let (value, what) = match reference.split_once(':') {
        Some(("env", name)) => (secrets.env(name), format!("environment variable {name}")),
        Some(("file", path)) => (secrets.file(path), format!("file {path}")),
        _ => {
            return Err(format!(
                "has ${{{reference}}}; secrets are written ${{env:NAME}} or ${{file:PATH}}"
            ));
        }
    };
    match value {
        None => Err(format!(
            "needs the {what}, which is not there or not readable"
        )),
        Some(value) if value.is_empty() => Err(format!("needs the {what}, which is empty")),
        Some(value) if !value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') => Err(format!(
            "needs the {what}, which holds characters that no header can carry"
        )),
        Some(value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Option<&'static str>);

    impl Secrets for Fixed {
        fn env(&self, _: &str) -> Option<String> {
            self.0.map(str::to_owned)
        }
        fn file(&self, _: &str) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    #[test]
    fn core_16_a_secret_that_cannot_be_used_is_named_and_not_shown() {
        assert_eq!(
            resolve("env:KEY", &Fixed(Some("hunter2"))),
            Ok("hunter2".into())
        );
        for bad in [None, Some(""), Some("hunter2\nx"), Some("hunter2é")] {
            for (reference, name) in [("env:KEY", "KEY"), ("file:/run/key", "/run/key")] {
                let problem = resolve(reference, &Fixed(bad)).expect_err("not usable");
                assert!(
                    problem.contains(name) && !problem.contains("hunter2"),
                    "{problem}"
                );
            }
        }
        assert!(
            resolve("vault:x", &Fixed(None))
                .expect_err("unknown")
                .contains("${env:NAME}")
        );
    }

    #[test]
    fn a_file_is_read_without_its_line_end_and_never_whole_if_large() {
        let folder = std::env::temp_dir().join(format!("clinch-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("key");
        let name = path.to_str().expect("a name");
        std::fs::write(&path, "hunter2\r\n").expect("written");
        assert_eq!(SystemSecrets.file(name).as_deref(), Some("hunter2"));
        std::fs::write(&path, "x".repeat(64 * 1024 + 1)).expect("written");
        assert_eq!(SystemSecrets.file(name), None);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(SystemSecrets.file(name), None);
    }
}
