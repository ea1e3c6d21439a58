//! The OpenAPI document says everything, and its examples are taken by the server.

mod check;
mod schema;

use clinch_server::openapi;
use serde_json::{Value, json};

use crate::harness::{Running, command};

#[test]
fn core_18_every_operation_schema_and_field_is_described_and_has_an_example() {
    let problems = check::problems(&openapi());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What is taken away or broken, and what the check says of it.
#[test]
fn core_18_what_is_missing_or_does_not_fit_is_found() {
    let operation = "/components/schemas/OperationDocument/properties";
    let cases: [(&str, &str, Option<Value>, &str); 8] = [
        (
            "/paths/~1v1~1leases/post",
            "summary",
            None,
            "POST /v1/leases: its summary",
        ),
        (
            "/paths/~1v1~1leases/post",
            "operationId",
            Some(json!("list_domains")),
            "operationId",
        ),
        (
            "/paths/~1v1~1leases/post/requestBody/content/application~1json",
            "examples",
            None,
            "POST /v1/leases, body: it has no example",
        ),
        (
            "/components/schemas/LeaseState",
            "description",
            None,
            "LeaseState: its description",
        ),
        (
            "/components/schemas/LeaseState",
            "examples",
            Some(json!([{"op_id": "x"}])),
            "is missing",
        ),
        (
            &format!("{operation}/op_id"),
            "description",
            Some(json!("op id")),
            "OperationDocument.op_id: its description",
        ),
        (
            &format!("{operation}/attempts"),
            "examples",
            Some(json!(["one"])),
            "OperationDocument.attempts: its example does not fit",
        ),
        (
            &format!("{operation}/hold"),
            "examples",
            Some(json!([null])),
            "OperationDocument.hold: every example of it is null",
        ),
    ];
    for (place, member, value, said) in cases {
        let mut document = openapi();
        let at = document
            .pointer_mut(place)
            .unwrap_or_else(|| panic!("{place}"));
        let at = at.as_object_mut().expect("an object");
        at.remove(member).expect(member);
        if let Some(value) = value {
            at.insert(member.to_owned(), value);
        }
        let problems = check::problems(&document);
        assert!(
            problems.iter().any(|one| one.contains(said)),
            "{place} {member}: {problems:?}"
        );
    }
}

/// An example that the reader of the body refuses is wrong, although it fits the schema.
#[tokio::test]
async fn core_18_the_server_reads_every_example_of_a_body() {
    let server = Running::new().await;
    let openapi = openapi();
    let mut sent = 0;
    for (path, item) in openapi["paths"].as_object().expect("paths") {
        let examples = &item["post"]["requestBody"]["content"]["application/json"]["examples"];
        for (name, example) in examples.as_object().into_iter().flatten() {
            let path = path
                .replace("{op_id}", "01a1dfbe-3f78-7059-9a95-761888da438a")
                .replace("{batch_id}", "01a1dfc0-2b5c-7e0a-9d6a-3f7c1f6a2b11")
                .replace("{domain}", "lane")
                .replace("{name}", "nowhere");
            let mut body = example["value"].clone();
            if body.get("wait").is_some() {
                body["wait"] = json!("0s");
            }
            let reply = server.post(&path, &body).await;
            let code = reply.body["code"].as_str().unwrap_or_default();
            let is_refused = matches!(code, "invalid_request" | "invalid_command");
            let is_cursor = reply.body["field"] == "cursor";
            assert!(
                !is_refused || is_cursor,
                "POST {path} {name}: {}",
                reply.text
            );
            sent += 1;
        }
    }
    assert!(sent >= 30, "{sent} examples were sent");
    assert!(server.stop().await);
}

/// The guide, and the place of each report in it.
const GUIDE: &str = include_str!("../../../../docs/guide/http-api.md");
/// The delivery that the guide's reports are about.
const OP_ID: &str = "01a1dfbf-a9df-753e-bce0-d521b957f77b";

/// The path and the body of a report in the guide, and the answer if it is shown.
fn reports() -> Vec<(String, Value, Option<Value>)> {
    let (_, section) = GUIDE.split_once("### Heartbeat").expect("reports");
    let (section, _) = section
        .split_once("### What is refused")
        .expect("their end");
    let blocks = section.split("```console\n").skip(1);
    let report = |block: &str| {
        let (block, _) = block.split_once("```").expect("its end");
        let (_, url) = block.split_once("localhost:7070").expect("a URL");
        let (path, _) = url.split_once(' ').expect("a path");
        let (_, body) = block.split_once("-d '").expect("a body");
        let (body, answer) = body.split_once('\'').expect("its end");
        let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{body}: {error}"));
        let answer = Some(answer.trim()).filter(|answer| !answer.is_empty());
        let answer = answer.map(|answer| serde_json::from_str(answer).expect("an answer"));
        (path.to_owned(), body, answer)
    };
    blocks.map(report).collect()
}

#[tokio::test]
async fn core_18_every_report_of_the_guide_is_taken() {
    let server = Running::new().await;
    let reports = reports();
    assert_eq!(reports.len(), 8, "{reports:?}");
    for (number, (path, mut body, answer)) in reports.into_iter().enumerate() {
        let submit = command("away", "report", &format!("guide-{number}"));
        let op_id = server.post("/v1/operations?wait=0s", &submit).await.op_id();
        let ask = json!({"domain": "away", "event_types": ["report"], "wait": "60s"});
        let leased = server.post("/v1/leases", &ask).await.body;
        let delivery = &leased["deliveries"][0];
        assert_eq!(delivery["op_id"], op_id, "{path}");
        body["fence"] = delivery["fence"].clone();
        body["token"] = delivery["token"].clone();
        assert!(path.contains(OP_ID), "{path}");
        let reply = server.post(&path.replace(OP_ID, &op_id), &body).await;
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text);
        for member in ["state", "phase", "cancel_requested", "left_out"] {
            if let Some(shown) = &answer {
                assert_eq!(reply.body[member], shown[member], "{path} {body}");
            }
        }
        // Out of the way of the next lease.
        let end = json!({"fence": body["fence"], "token": body["token"], "type": "ok"});
        server
            .post(&format!("/v1/leases/{op_id}/outcome"), &end)
            .await;
    }
    assert!(server.stop().await);
}
