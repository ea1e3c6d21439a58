//! Batches.

use serde_json::json;

use crate::harness::{Running, command};

#[tokio::test]
async fn a_batch_is_opened_filled_sealed_and_complete() {
    let server = Running::new().await;
    let on_complete = command("pay", "ok", "the end");
    let batch = server
        .post("/v1/batches", &json!({"on_complete": on_complete}))
        .await;
    assert_eq!(batch.status, 200, "{}", batch.text);
    let id = batch.body["batch_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/batches/{id}");
    let operations = json!([
        command("pay", "ok", "m1"),
        command("pay", "fail", "m2"),
        command("pay", "ok", "")
    ]);
    let added = server
        .post(
            &format!("{path}/operations"),
            &json!({"operations": operations}),
        )
        .await;
    let results = added.body["results"].as_array().expect("results").clone();
    assert_eq!(results[2]["error"]["code"], "invalid_command");
    for result in &results[..2] {
        server
            .settled(result["op_id"].as_str().expect("an id"))
            .await;
    }
    let open = server.get(&path).await.body;
    assert_eq!(
        (&open["sealed"], &open["complete"], &open["total"]),
        (&json!(false), &json!(false), &json!(2))
    );
    for _ in 0..2 {
        let sealed = server
            .send("POST", &format!("{path}/seal"), &[], "")
            .await
            .body;
        assert_eq!(
            (&sealed["complete"], &sealed["completed"], &sealed["failed"]),
            (&json!(true), &json!(1), &json!(1))
        );
        assert!(sealed["completed_at"].is_string());
    }
    let ends = server.get("/v1/operations?idem_key=the%20end").await.body;
    assert_eq!(ends["operations"].as_array().map(Vec::len), Some(1));
    let members = server
        .get(&format!("/v1/operations?batch_id={id}"))
        .await
        .body;
    assert_eq!(members["operations"].as_array().map(Vec::len), Some(2));
    let late = json!({"operations": [command("pay", "ok", "late")]});
    let late = server.post(&format!("{path}/operations"), &late).await;
    assert_eq!(
        late.body["results"][0]["error"]["field"], "batch_id",
        "{}",
        late.text
    );
    let own = "01917f5e-0000-7000-8000-000000000001";
    for _ in 0..2 {
        let reply = server.post("/v1/batches", &json!({"batch_id": own})).await;
        assert_eq!((reply.status, &reply.body["batch_id"]), (200, &json!(own)));
    }
    server
        .post("/v1/batches", &json!({"batch_id": "x"}))
        .await
        .is_problem(400, "invalid_request");
}
