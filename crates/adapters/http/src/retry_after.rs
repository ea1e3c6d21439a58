//! `Retry-After`: seconds or an HTTP date (RFC 9110).

use std::time::{Duration, UNIX_EPOCH};

use clinch_core::Timestamp;
use hyper::HeaderMap;
use hyper::header::RETRY_AFTER;

/// How long the provider asks every caller to pause. The route caps it.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number that does not fit means "very long".
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let moment = httpdate::parse_http_date(text).ok()?;
    let since_epoch = moment.duration_since(UNIX_EPOCH).ok()?;
    Some((Timestamp::from_millis(0) + since_epoch).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        // 1994-11-06 08:49:37 GMT
        let now = Timestamp::from_millis(784_111_777_000);
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().expect("a value"));
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read(" 0 "), Some(0));
        assert_eq!(read("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(read("Sun, 06 Nov 1994 08:51:37 GMT"), Some(120));
        assert_eq!(read("Sunday, 06-Nov-94 08:51:37 GMT"), Some(120));
        assert_eq!(read("Sun Nov  6 08:51:37 1994"), Some(120));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        for wrong in ["", "-1", "1.5", "soon", "Sun, 99 Nov 1994 08:51:37 GMT"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
