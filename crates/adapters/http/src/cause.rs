//! The part of a provider's refusal that is safe to show.
//!
//! Providers quote requests in their errors: card numbers, names, tokens. So no text of an answer
//! goes into a failure. The useful part is the provider's own error code (`card_declined`). It is
//! taken only if it looks like a code and contains nothing that was sent.

use serde_json::Value;

/// Maximum length of a code: codes are words, not sentences.
const CODE_CHARS_MAX: usize = 48;

/// Values of a request that are shorter than this may occur in a code: short values ("GB", "5")
/// occur in many words by chance and reveal nothing.
const SHOWS_FROM: usize = 4;

/// Where providers put their codes, the most specific first.
const PLACES: [&str; 8] = [
    "/error/decline_code",
    "/error/code",
    "/error/type",
    "/errors/0/code",
    "/code",
    "/error_code",
    "/error",
    "/type",
];

/// Everything that a request carried.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Texts and numbers of the payload, the headers, the URL and the keys.
    pub values: Vec<String>,
    /// Names of the payload's members. Schemas share words with error codes (`card`,
    /// `card_declined`), so a code may contain a name but not equal one.
    pub names: Vec<String>,
}

/// The provider's error code, if the body has one that is safe to show.
pub(crate) fn code(body: &Value, sent: &Sent) -> Option<String> {
    let at = |place: &&str| body.pointer(place).and_then(Value::as_str);
    let code = PLACES.iter().filter_map(at).find(|text| is_code(text))?;
    let plain = fold(code);
    let holds = |sent: &String| fold(sent).contains(&plain);
    let shows = |sent: &String| {
        let sent = fold(sent);
        sent.len() >= SHOWS_FROM && plain.contains(&sent)
    };
    let is_unsafe = sent.values.iter().any(|value| holds(value) || shows(value))
        || sent.names.iter().any(holds);
    (!is_unsafe).then(|| code.to_owned())
}

/// A lower-case word with separators. Card numbers, account numbers, tokens and encoded text do not
/// fit this form.
fn is_code(text: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.".contains(&b);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let longest = text.split(['_', '-', '.']).map(str::len).max();
    text.len() <= CODE_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(is_fine)
        && digits <= 3
        && longest.is_some_and(|length| length <= 20)
}

fn fold(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

impl Sent {
    /// Adds all values and names of a payload.
    pub(crate) fn add(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.names.push(name.clone());
                    self.add(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::String(text) => self.values.push(text.clone()),
            Value::Number(number) => self.values.push(number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_of_well_known_providers_are_taken() {
        let bodies = [
            (
                json!({"error": {"code": "card_declined", "message": "No."}}),
                "card_declined",
            ),
            (
                json!({"error": {"type": "card_error", "decline_code": "lost_card"}}),
                "lost_card",
            ),
            (
                json!({"errors": [{"code": "E1"}, {"code": "x"}], "code": "not.found"}),
                "not.found",
            ),
            (json!({"error": "invalid_grant"}), "invalid_grant"),
        ];
        for (body, expected) in bodies {
            assert_eq!(
                code(&body, &Sent::default()).as_deref(),
                Some(expected),
                "{body}"
            );
        }
    }

    #[test]
    fn core_16_nothing_that_was_sent_shows_in_a_cause() {
        let mut sent = Sent::default();
        sent.values.push("Bearer sk-canary".to_owned());
        sent.add(&json!({"name": "canary.b", "card": {"number": 4_242_424_242_424_242_u64}}));
        let echoes = [
            "canary-b",
            "canaryb",
            "sk_canary",
            "invalid.canary_b",
            "bearer_sk-canary",
            "4242424242424242",
            "card_4242424242424242",
            "card",
            "No such card",
            "a canary",
            "sk_live_51H8zKq2e",
            "c2VjcmV0LXRva2VuLXZhbHVl",
            "746f6b656e746f6b656e746f6b656e746f6b656e",
            "abcdefghijklmnopqrstuvwxyz",
            "",
        ];
        for echo in echoes {
            assert_eq!(code(&json!({"code": echo}), &sent), None, "{echo}");
        }
        assert_eq!(code(&json!("card_declined"), &sent), None);
        let declined = json!({"code": "card_declined"});
        assert_eq!(code(&declined, &sent).as_deref(), Some("card_declined"));
    }
}
