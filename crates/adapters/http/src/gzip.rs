//! Bodies that a server has compressed.

use std::io::Read;

use flate2::read::MultiGzDecoder;

/// Why a body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is longer than the limit.
    TooLong,
    /// It is not gzip, or incomplete.
    Malformed,
}

/// Decompresses a body of at most `bytes_max` bytes. Stops at the limit: a small body may stand for
/// a very long one.
pub(crate) fn decompressed(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let mut reader = MultiGzDecoder::new(body).take(limit.saturating_add(1));
    let read = reader.read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() > bytes_max => Err(Unread::TooLong),
        Ok(_) => Ok(bytes),
        Err(_) => Err(Unread::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).expect("written");
        encoder.finish().expect("compressed")
    }

    #[test]
    fn a_body_comes_back_whole_or_not_at_all() {
        let body = br#"[{"id":1},{"id":2}]"#;
        let zipped = compressed(body);
        assert_eq!(decompressed(&zipped, body.len()), Ok(body.to_vec()));
        assert_eq!(decompressed(&zipped, body.len() - 1), Err(Unread::TooLong));
        let cut = &zipped[..zipped.len() - 1];
        assert_eq!(decompressed(cut, 1_000), Err(Unread::Malformed));
        assert_eq!(decompressed(body, 1_000), Err(Unread::Malformed));
    }

    #[test]
    fn a_small_body_that_stands_for_a_long_one_is_refused() {
        let zipped = compressed(&vec![b' '; 10_000_000]);
        assert!(zipped.len() < 20_000);
        assert_eq!(decompressed(&zipped, 20_000), Err(Unread::TooLong));
    }
}
