//! Style sheet, script and icon of the console, inside the binary.

use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped};
use sha2::{Digest, Sha256};

use crate::api::Problem;

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A path that changes with the content, so that browsers may keep the file.
pub(super) fn path(file: &str) -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        let mut digest = Sha256::new();
        for content in [STYLE, SCRIPT, ICON] {
            digest.update(content.as_bytes());
        }
        digest.finalize()[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    });
    format!("/assets/{file}?v={version}")
}

/// The icon as part of a page.
pub(super) fn mark() -> Markup {
    PreEscaped(ICON.to_owned())
}

pub(super) async fn get(Path(file): Path<String>) -> Result<Response, Problem> {
    let (content, kind) = match file.as_str() {
        "console.css" => (STYLE, "text/css; charset=utf-8"),
        "console.js" => (SCRIPT, "text/javascript; charset=utf-8"),
        "icon.svg" => (ICON, "image/svg+xml"),
        _ => return Err(Problem::not_found("there is no such file")),
    };
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, kept);
    Ok(response)
}
