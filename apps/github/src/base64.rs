//! Base64 (RFC 4648), as far as keys and signed requests need it.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes in the alphabet of addresses, without padding.
pub(crate) fn url_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let index = (word >> (18 - 6 * place)) & 63;
            let digit = STANDARD[index as usize];
            text.push(match digit {
                b'+' => '-',
                b'/' => '_',
                digit => char::from(digit),
            });
        }
    }
    text
}

/// Decodes either alphabet, with or without padding. `None`: the text is not base64.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            let digit = match digit {
                b'-' => b'+',
                b'_' => b'/',
                digit => *digit,
            };
            let value = STANDARD.iter().position(|known| *known == digit)?;
            word = word << 6 | u32::try_from(value).ok()?;
        }
        word <<= 6 * (4 - chunk.len());
        let whole = word.to_be_bytes();
        bytes.extend(whole.iter().skip(1).take(chunk.len() - 1));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_read_and_written() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(url_encoded(plain.as_bytes()), text.trim_end_matches('='));
            assert_eq!(decoded(text).as_deref(), Some(plain.as_bytes()));
            let bare = text.trim_end_matches('=');
            assert_eq!(decoded(bare).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(url_encoded(&[0xfb, 0xff]), "-_8");
        assert_eq!(decoded("-_8"), decoded("+/8="));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["a", "a b=", "ab=c", "Zg===", "Zm9v\n", "é"] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }
}
