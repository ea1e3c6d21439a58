//! A strict JSON parser. It is not built on serde_json's parser, because that one loses exactly the
//! cases that must be refused: it drops duplicate members, turns long integers into doubles, and
//! rounds some doubles wrongly unless one of its features is enabled somewhere in the build.

use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, INTEGER_MAX, JsonError, JsonProblem};

/// From this value on, ECMAScript, and so the canonical form, prints doubles with an exponent.
/// Whole doubles below it are printed as plain digits.
const EXPONENT_FROM: f64 = 1e21;

/// Prefix of member names that serde_json uses internally. An object with such a member decodes
/// into something other than what it says.
const RESERVED: &str = "$serde_json::private::";

/// Parses one JSON value that makes up the whole text.
///
/// Refused, besides what RFC 8259 does not allow:
/// - two members of one object with the same name, compared after unescaping;
/// - member names that begin with `$serde_json::private::`: serde_json would decode the
///   object as a different value from the one that was hashed;
/// - integers outside ±(2^53 − 1). A number counts as an integer if it is spelt as one, or
///   if the canonical form would spell it as one: `1e16` is refused like
///   `10000000000000000`, being the same value, while `1e300` is a double and fine;
/// - numbers too large for a double, such as `1e400`;
/// - arrays and objects nested deeper than [`DEPTH_MAX`];
/// - escapes that make half a surrogate pair;
/// - anything but white space after the value.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    let mut parser = Parser { text, at: 0 };
    parser.skip_space();
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.problem(JsonProblem::Trailing)),
    }
}

struct Parser<'t> {
    text: &'t str,
    /// Bytes read so far. Always at a character boundary when text is sliced, because all JSON
    /// delimiters are ASCII.
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn problem(&self, problem: JsonProblem) -> JsonError {
        JsonError {
            problem,
            offset: self.at,
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'n') => self.literal("null", Value::Null),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'[' | b'{') if depth == DEPTH_MAX => Err(self.problem(JsonProblem::TooDeep)),
            Some(b'[') => self.array(depth + 1).map(Value::Array),
            Some(b'{') => self.object(depth + 1).map(Value::Object),
            _ => Err(self.problem(JsonProblem::Expected("a value"))),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        let rest = &self.text.as_bytes()[self.at..];
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.problem(JsonProblem::Expected("a value")));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            self.skip_space();
            items.push(self.value(depth)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.problem(JsonProblem::Expected("',' or ']'")));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, JsonError> {
        self.at += 1;
        let mut members = Map::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(members);
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.problem(JsonProblem::Expected("a member name")));
            }
            let offset = self.at;
            let name = self.string()?;
            let refused = if members.contains_key(&name) {
                Some(JsonProblem::DuplicateName)
            } else if name.starts_with(RESERVED) {
                Some(JsonProblem::ReservedName)
            } else {
                None
            };
            if let Some(problem) = refused {
                return Err(JsonError { problem, offset });
            }
            self.skip_space();
            if !self.take(b':') {
                return Err(self.problem(JsonProblem::Expected("':'")));
            }
            self.skip_space();
            members.insert(name, self.value(depth)?);
            self.skip_space();
            if self.take(b'}') {
                return Ok(members);
            }
            if !self.take(b',') {
                return Err(self.problem(JsonProblem::Expected("',' or '}'")));
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(byte) if byte >= 0x20 && byte != b'"' && byte != b'\\')
            {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.problem(JsonProblem::Control)),
                None => return Err(self.problem(JsonProblem::Expected("the end of a string"))),
            }
        }
    }

    /// Reads an escape. For a surrogate pair, reads both halves.
    fn escape(&mut self) -> Result<char, JsonError> {
        let offset = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b't') => '\t',
            Some(b'n') => '\n',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex4()?;
                return self.scalar(first, offset);
            }
            _ => {
                let problem = JsonProblem::Escape;
                return Err(JsonError { problem, offset });
            }
        };
        self.at += 1;
        Ok(plain)
    }

    /// The character that starts with the UTF-16 unit `first`, whose escape is at `offset`.
    fn scalar(&mut self, first: u32, offset: usize) -> Result<char, JsonError> {
        let problem = JsonProblem::LoneSurrogate;
        let lone = JsonError { problem, offset };
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) {
            if !(self.take(b'\\') && self.take(b'u')) {
                return Err(lone);
            }
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(lone);
            }
            code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        // Only a lone second half can fail here.
        char::from_u32(code).ok_or(lone)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.problem(JsonProblem::Expected("four hexadecimal digits")));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let offset = self.at;
        let negative = self.take(b'-');
        let digits_at = self.at;
        if !self.take(b'0') {
            self.digits()?;
        }
        let digits = &self.text[digits_at..self.at];
        let mut whole = true;
        if self.take(b'.') {
            whole = false;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            whole = false;
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let number = if whole {
            integer(negative, digits)
        } else {
            double(&self.text[offset..self.at])
        };
        number.map_err(|problem| JsonError { problem, offset })
    }

    /// Skips one or more digits.
    fn digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.problem(JsonProblem::Expected("a digit")));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }
}

fn integer(negative: bool, digits: &str) -> Result<Number, JsonProblem> {
    let size: i64 = digits.parse().map_err(|_| JsonProblem::IntegerRange)?;
    if size.unsigned_abs() > INTEGER_MAX {
        return Err(JsonProblem::IntegerRange);
    }
    Ok(Number::from(if negative { -size } else { size }))
}

fn double(literal: &str) -> Result<Number, JsonProblem> {
    // The standard library rounds correctly, and it accepts every JSON number.
    let double: f64 = literal.parse().map_err(|_| JsonProblem::NotFinite)?;
    let size = double.abs();
    if size > INTEGER_MAX as f64 && size < EXPONENT_FROM {
        return Err(JsonProblem::IntegerRange);
    }
    Number::from_f64(double).ok_or(JsonProblem::NotFinite)
}
