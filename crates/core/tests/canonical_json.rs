//! Strict JSON, its canonical form, and the hashes that rest on it. The RFC 8785 tests use
//! the RFC's own data; the known answers were computed outside this code base.

use clinch_core::json::{DEPTH_MAX, JsonProblem, canonical, parse};
use clinch_core::{
    BizKey, ContentHash, Domain, EventType, Fingerprint, IdemKey, Invalid, KeyHash, OpId,
    OutboundKey, PAYLOAD_BYTES_MAX, Payload,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn payload(text: &str) -> Result<Payload, Invalid> {
    Payload::parse(text, PAYLOAD_BYTES_MAX)
}

fn keys(names: [&str; 4]) -> Result<(Domain, EventType, BizKey, IdemKey), Invalid> {
    Ok((
        names[0].parse()?,
        names[1].parse()?,
        names[2].parse()?,
        names[3].parse()?,
    ))
}

mod rfc_8785 {
    use super::*;

    #[test]
    fn section_3_2_2_example() {
        let text = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"#,
            r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        );
        assert_eq!(canonical(&parse(text).expect("valid")), expected);
    }

    #[test]
    fn section_3_2_3_members_sort_by_utf16_units() {
        let text = r#"{
            "\u20ac": "Euro Sign",
            "\r": "Carriage Return",
            "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One",
            "\ud83d\ude00": "Emoji: Grinning Face",
            "\u0080": "Control",
            "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let expected = concat!(
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",",
            "\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",",
            "\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
        );
        assert_eq!(canonical(&parse(text).expect("valid")), expected);
    }

    #[test]
    fn appendix_b_numbers() {
        let table: &[(u64, &str)] = &[
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0x41b3de4355555556, "333333333.3333334"),
            (0x41b3de4355555557, "333333333.33333343"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ];
        for (bits, expected) in table {
            let text = canonical(&json!(f64::from_bits(*bits)));
            assert_eq!(&text, expected, "{bits:016x}");
            // Where the text is accepted, it is the same double again.
            if let Ok(Value::Number(number)) = parse(&text) {
                assert_eq!(number.as_f64(), Some(f64::from_bits(*bits)), "{bits:016x}");
            }
        }
    }

    #[test]
    fn strings_escape_only_what_must_be() {
        let all: String = ('\0'..='\u{ff}').collect();
        let controls = concat!(
            r"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f",
            r"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017",
            r"\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f",
        );
        let rest: String = (' '..='\u{ff}').collect();
        let rest = rest.replace('\\', r"\\").replace('"', r#"\""#);
        assert_eq!(canonical(&json!(all)), format!("\"{controls}{rest}\""));
        assert_eq!(canonical(&json!("\u{2028}</😀")), "\"\u{2028}</😀\"");
    }

    #[test]
    fn spellings_of_one_number_are_one_text() {
        for text in ["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", " 1\n"] {
            assert_eq!(canonical(&parse(text).expect(text)), "1", "{text}");
        }
        for text in ["0", "-0", "-0.0", "0e9", "-0e-9", "1e-400"] {
            assert_eq!(canonical(&parse(text).expect(text)), "0", "{text}");
        }
    }

    #[test]
    fn integers_beyond_doubles_are_written_as_the_nearest_double() {
        assert_eq!(canonical(&json!(9007199254740993_u64)), "9007199254740992");
        assert_eq!(canonical(&json!(u64::MAX)), "18446744073709552000");
        assert_eq!(canonical(&json!(i64::MIN)), "-9223372036854776000");
    }
}

#[test]
fn parse_refuses_and_says_where() {
    use JsonProblem::*;
    let cases = [
        (r#"{"a":1,"a":2}"#, DuplicateName, 7),
        (r#"{"a":1,"\u0061":2}"#, DuplicateName, 7),
        (r#"[{"b":{"x":0,"y":0,"x":0}}]"#, DuplicateName, 19),
        (r#"{"$serde_json::private::RawValue":"1"}"#, ReservedName, 1),
        (r#"{"\u0024serde_json::private::x":1}"#, ReservedName, 1),
        ("9007199254740992", IntegerRange, 0),
        ("[-9007199254740992]", IntegerRange, 1),
        ("123456789012345678901234567890", IntegerRange, 0),
        ("9007199254740992.0", IntegerRange, 0),
        ("1e16", IntegerRange, 0),
        ("-999999999999999900000.0", IntegerRange, 0),
        ("1e400", NotFinite, 0),
        ("[0,-1e309]", NotFinite, 3),
        (r#""a\ud800""#, LoneSurrogate, 2),
        (r#""\udc00""#, LoneSurrogate, 1),
        (r#""\ud800\ud800""#, LoneSurrogate, 1),
        (r#""\ud800\n""#, LoneSurrogate, 1),
        (r#""\ud800x""#, LoneSurrogate, 1),
        (r#""\x41""#, Escape, 1),
        (r#""\"#, Escape, 1),
        (r#""\u00g0""#, Expected("four hexadecimal digits"), 5),
        ("\"a\nb\"", Control, 2),
        ("\"a", Expected("the end of a string"), 2),
        ("1 2", Trailing, 2),
        ("01", Trailing, 1),
        ("nulll", Trailing, 4),
        ("", Expected("a value"), 0),
        ("\u{feff}1", Expected("a value"), 0),
        ("nul", Expected("a value"), 0),
        ("NaN", Expected("a value"), 0),
        ("+1", Expected("a value"), 0),
        (".5", Expected("a value"), 0),
        ("[1,]", Expected("a value"), 3),
        ("[1 2]", Expected("',' or ']'"), 3),
        ("-", Expected("a digit"), 1),
        ("1.", Expected("a digit"), 2),
        ("1e+", Expected("a digit"), 3),
        ("{1:2}", Expected("a member name"), 1),
        (r#"{"a":1,}"#, Expected("a member name"), 7),
        (r#"{"a" 1}"#, Expected("':'"), 5),
        (r#"{"a":1"#, Expected("',' or '}'"), 6),
    ];
    for (text, problem, offset) in cases {
        let error = parse(text).expect_err(text);
        assert_eq!((error.problem, error.offset), (problem, offset), "{text}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn parse_accepts_up_to_its_bounds() {
    for text in ["9007199254740991", "-9007199254740991", "1e300", "1e21"] {
        assert!(parse(text).is_ok(), "{text}");
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = parse(&nested(DEPTH_MAX)).expect("as deep as may be");
    assert_eq!(canonical(&deep), nested(DEPTH_MAX));
    let error = parse(&nested(DEPTH_MAX + 1)).expect_err("too deep");
    assert_eq!(
        (error.problem, error.offset),
        (JsonProblem::TooDeep, DEPTH_MAX)
    );
    assert!(
        JsonProblem::TooDeep
            .to_string()
            .contains(&DEPTH_MAX.to_string())
    );
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert_eq!(parse(r#""\ud83d\uDE00\/""#).expect("a pair"), json!("😀/"));
}

#[test]
fn core_6_same_json_value_same_fingerprint() {
    let one = payload(r#"{"a":1,"b":2}"#).expect("valid");
    let same = payload("{\"b\": 2,\n \"\\u0061\": 1.0}").expect("valid");
    let other = payload(r#"{"a":1,"b":3}"#).expect("valid");
    assert_eq!(one, same);
    assert_eq!(Fingerprint::plain(&one), Fingerprint::plain(&same));
    assert_ne!(Fingerprint::plain(&one), Fingerprint::plain(&other));
    let keyed = |payload: &Payload| Fingerprint::keyed(b"key", payload);
    assert_eq!(keyed(&one), keyed(&same));
    assert_ne!(keyed(&one), keyed(&other));
    assert_ne!(keyed(&one), Fingerprint::keyed(b"yek", &one));
    assert_ne!(
        keyed(&one).to_bytes()[1..],
        Fingerprint::plain(&one).to_bytes()[1..]
    );
    assert!(payload(r#"{"a":1,"a":2}"#).is_err());
}

#[test]
fn fingerprint_known_answers() {
    let payload = payload(r#"{"a":1,"b":2}"#).expect("valid");
    assert_eq!(
        Fingerprint::plain(&payload).to_string(),
        "v1:d1c4907c3f4d04f4080fac33081e0f349c825152dd520d0b38dcc2c8def94466"
    );
    let block: Vec<u8> = (0..64).collect();
    let keyed: [(&[u8], &str); 3] = [
        (
            b"key",
            "v2:96e7432c15f7261c9baf29c088024acf3b7c9647cfa0288eb694347c9261256f",
        ),
        (
            &block,
            "v2:ee7e6222065054484bc8190e8b895da4df2b231510aab49cd777d4236892cb9b",
        ),
        (
            &[b'k'; 65],
            "v2:eea61f309d36a3a6d3f0ea37e09b4fc0ef1a98509eade7546652fb15329087e2",
        ),
    ];
    for (key, expected) in keyed {
        assert_eq!(Fingerprint::keyed(key, &payload).to_string(), expected);
    }
}

#[test]
fn out_3_content_hash_detects_change_of_any_field() {
    let op_id: OpId = "01917f5e-0000-7000-8000-000000000000"
        .parse()
        .expect("UUID");
    let other_id: OpId = "01917f5e-0000-7000-8000-000000000001"
        .parse()
        .expect("UUID");
    let charge = EventType::new("charge").expect("valid");
    let charges = EventType::new("charges").expect("valid");
    let hash = ContentHash::of(&op_id, &charge, b"stored");
    assert!(hash.verifies(&op_id, &charge, b"stored"));
    assert!(!hash.verifies(&other_id, &charge, b"stored"));
    assert!(!hash.verifies(&op_id, &charges, b"stored"));
    assert!(!hash.verifies(&op_id, &charge, b"Stored"));
    // A byte that moves from one field to the next does not go unnoticed.
    assert!(!ContentHash::of(&op_id, &charge, b"sx").verifies(&op_id, &charges, b"x"));

    assert_eq!(
        hash.to_string(),
        "v1:f9db7f5cdc95d71ed289c47c6a29176b9457f32703c1b033162713b5cf88e444"
    );
    assert_eq!(
        ContentHash::from_bytes(&hash.to_bytes()).expect("reads"),
        hash
    );
    let mut unknown = hash.to_bytes();
    unknown[0] = 2;
    let error = ContentHash::from_bytes(&unknown).expect_err("refused");
    assert_eq!(error.field, "content_hash");
}

#[test]
fn core_6_key_hash_tells_all_four_keys_apart() {
    let hash = |names| {
        let (domain, event_type, biz_key, idem_key) = keys(names).expect("valid");
        KeyHash::of(&domain, &event_type, &biz_key, &idem_key)
    };
    let known = hash(["payments", "charge", "order-123", "주문-1"]);
    assert_eq!(
        known.to_string(),
        "4ecc4bd9fd872c78818ededecf6193e537f1b2ac7e581b6ff11cd26c5046e92f"
    );
    assert_eq!(known, hash(["payments", "charge", "order-123", "주문-1"]));
    let lists = [
        ["a", "b", "c", "d"],
        ["ab", "b", "c", "d"],
        ["a", "bc", "c", "d"],
        ["a", "b", "cd", "d"],
        ["a", "b", "c", "dd"],
        ["b", "a", "c", "d"],
        ["a", "b", "d", "c"],
    ];
    let hashes: std::collections::BTreeSet<KeyHash> = lists.into_iter().map(hash).collect();
    assert_eq!(hashes.len(), lists.len());

    assert_eq!(KeyHash::from_bytes(known.as_bytes()).expect("reads"), known);
    let text = serde_json::to_string(&known).expect("serialises");
    assert_eq!(
        serde_json::from_str::<KeyHash>(&text).expect("reads"),
        known
    );
    let error = KeyHash::from_bytes(&[0; 31]).expect_err("refused");
    assert_eq!(error.field, "key_hash");
}

#[test]
fn core_4_outbound_key_is_stable_and_fits_providers() {
    let names = ["payments", "charge", "order-123", "주문-1"];
    let (domain, event_type, biz_key, idem_key) = keys(names).expect("valid");
    let derived = OutboundKey::derive(&domain, &event_type, &biz_key, &idem_key);
    assert_eq!(
        derived.as_str(),
        "ck1_736amxsndbbausl2r5yxkeyzwina46q7psc4n2i"
    );
    assert!(derived.as_str().len() <= 45);
    let other = BizKey::new("order-124").expect("valid");
    let other = OutboundKey::derive(&domain, &event_type, &other, &idem_key);
    assert_ne!(derived, other);

    let raw = OutboundKey::raw(&idem_key);
    assert_eq!(raw.to_string(), "주문-1");
    for key in [derived, raw] {
        let text = serde_json::to_string(&key).expect("serialises");
        assert_eq!(text, format!("\"{key}\""));
        assert_eq!(
            serde_json::from_str::<OutboundKey>(&text).expect("reads"),
            key
        );
    }
    let error = "a\nb".parse::<OutboundKey>().expect_err("refused");
    assert_eq!(error.field, "outbound_key");
}

/// Numbers that `parse` accepts, in every representation of serde_json.
fn number() -> impl Strategy<Value = Value> {
    let integer = -9007199254740991_i64..=9007199254740991;
    let printed_as_digits = |double: &f64| (9007199254740991.0..1e21).contains(&double.abs());
    prop_oneof![
        integer.prop_map(|integer| json!(integer)),
        (-1000_i64..1000).prop_map(|small| json!(small as f64)),
        proptest::num::f64::ANY
            .prop_filter("accepted", move |double| {
                double.is_finite() && !printed_as_digits(double)
            })
            .prop_map(|double| json!(double)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let text = proptest::collection::vec(any::<char>(), 0..6)
        .prop_map(|chars| chars.into_iter().collect::<String>());
    let text = prop_oneof![text, "[\u{0}-\u{ff}]{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        text.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Equal up to how a number is represented.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let found = |(name, a)| b.get(name).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(found)
        }
        _ => a == b,
    }
}

/// The same value spelt as differently as JSON allows: members backwards, every character
/// escaped, doubles in scientific form, white space everywhere.
fn respelt(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("\t{:E} ", number.as_f64().unwrap_or_default()),
        Value::String(text) => {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!(" \"{}\"\r", units.collect::<String>())
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(respelt).collect();
            format!("[ {} ]", items.join(","))
        }
        Value::Object(members) => {
            let spell = |(name, member): (&String, _)| {
                format!("{}:{}", respelt(&json!(name)), respelt(member))
            };
            let mut members: Vec<_> = members.iter().map(spell).collect();
            members.reverse();
            format!("{{\n{}}}\n", members.join(","))
        }
        literal => literal.to_string(),
    }
}

/// Canonical text with pieces of JSON thrown in: near enough to JSON to get past the first
/// character.
fn json_like() -> impl Strategy<Value = String> {
    let piece = r#"[\[\]{},:"\\ .eE+0-]|[0-9]{1,9}|null|"[ab]":|\\u([0d][08][01]0|dc00)"#;
    let pieces = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let spoilt = (value(), "[\u{20}-\u{7e}]", any::<proptest::sample::Index>()).prop_map(
        |(value, piece, at)| {
            let mut chars: Vec<char> = canonical(&value).chars().collect();
            let at = at.index(chars.len());
            chars.splice(at..at + 1, piece.chars());
            chars.into_iter().collect()
        },
    );
    prop_oneof![pieces, spoilt]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn canonical_text_reads_back_and_is_a_fixed_point(value in value()) {
        let text = canonical(&value);
        let read = parse(&text).expect("canonical text is accepted");
        prop_assert!(same(&value, &read));
        prop_assert_eq!(canonical(&read), text);
    }

    #[test]
    fn core_6_spelling_and_member_order_do_not_matter(value in value()) {
        let plain = payload(&canonical(&value)).expect("accepted");
        let respelt = payload(&respelt(&value)).expect("accepted");
        prop_assert_eq!(&plain, &respelt);
        prop_assert_eq!(Fingerprint::plain(&plain), Fingerprint::plain(&respelt));
    }

    #[test]
    fn payload_survives_serde(value in value()) {
        let payload = Payload::from_value(&value, PAYLOAD_BYTES_MAX).expect("accepted");
        prop_assert_eq!(payload.as_str(), canonical(&value));
        let text = serde_json::to_string(&payload).expect("serialises");
        let read: Payload = serde_json::from_str(&text).expect("reads");
        prop_assert_eq!(read, payload);
    }

    /// Whatever is read is JSON, and JSON is refused only for the reasons we give.
    #[test]
    fn parse_agrees_with_serde_json(text in json_like()) {
        let theirs = serde_json::from_str::<Value>(&text);
        match parse(&text) {
            Ok(_) => prop_assert!(theirs.is_ok(), "{}", text),
            Err(error) => prop_assert!(theirs.is_err() || matches!(
                error.problem,
                JsonProblem::DuplicateName
                    | JsonProblem::IntegerRange
                    // Accepted there if `arbitrary_precision` is on somewhere.
                    | JsonProblem::NotFinite
            ), "{} {}", text, error),
        }
    }

    /// Nothing makes it panic, and its offset lies within the text.
    #[test]
    fn parse_is_total(text in any::<String>(), json in value(), cut in any::<proptest::sample::Index>()) {
        let canonical = canonical(&json);
        let cut: String = canonical.chars().take(cut.index(canonical.chars().count())).collect();
        for text in [text, cut] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.offset <= text.len());
            }
        }
    }
}
