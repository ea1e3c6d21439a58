//! The port on the server's commands.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentSink, check_document_search, check_documents,
};
use mongodb::bson::{Bson, Document as Fields, doc};
use mongodb::{Collection, IndexModel};

use crate::body::Body;
use crate::{MongoDb, error, names};

/// Bytes of one command, unless one document alone has more: below the 48 MB of a message.
const COMMAND_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Two callers that store the same new document at once may meet in the index; the second try
/// finds it there.
const TRIES_MAX: usize = 5;

/// The server's code for that.
const DUPLICATE_KEY: i32 = 11_000;

impl MongoDb {
    fn collection(&self, collection: &str) -> Collection<Fields> {
        self.database.collection(&names::collection(collection))
    }

    /// Makes sure of the index for a user's documents.
    async fn index(&self, collection: &Collection<Fields>) -> Result<()> {
        if self.is_indexed(collection.name()) {
            return Ok(());
        }
        let keys = doc! { "user": 1, "kind": 1, "_id": 1 };
        let made = collection.create_index(IndexModel::builder().keys(keys).build());
        made.await.map_err(|failed| error::written(&failed))?;
        self.note_indexed(collection.name());
        Ok(())
    }

    /// Stores documents that fit into one command.
    async fn send(&self, collection: &str, updates: &[Fields]) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let command = doc! {
                "update": collection,
                "updates": updates,
                "ordered": false,
                "writeConcern": { "w": "majority", "j": true },
            };
            let reply = self.database.run_command(command).await;
            let reply = reply.map_err(|failed| error::written(&failed))?;
            match judge(&reply) {
                Reply::Done => return Ok(()),
                Reply::Again => {}
                Reply::Failed => return Err(error::half_way()),
            }
        }
        Err(error::half_way())
    }
}

/// What became of a command.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Done,
    Again,
    Failed,
}

fn judge(reply: &Fields) -> Reply {
    if reply.contains_key("writeConcernError") {
        return Reply::Failed;
    }
    let Ok(errors) = reply.get_array("writeErrors") else {
        return Reply::Done;
    };
    let is_race = |error: &Bson| {
        let code = error.as_document().and_then(|error| error.get("code"));
        code.and_then(Bson::as_i32) == Some(DUPLICATE_KEY)
    };
    match errors.iter().all(is_race) {
        true if errors.is_empty() => Reply::Done,
        true => Reply::Again,
        false => Reply::Failed,
    }
}

/// Commands of a bounded size.
fn parts(updates: Vec<Fields>) -> Vec<Vec<Fields>> {
    let (mut parts, mut size) = (vec![Vec::new()], 0);
    for update in updates {
        let bytes = update.to_vec().map_or(0, |bytes| bytes.len());
        if size > 0 && size + bytes > COMMAND_BYTES_MAX {
            parts.push(Vec::new());
            size = 0;
        }
        size += bytes;
        if let Some(part) = parts.last_mut() {
            part.push(update);
        }
    }
    parts
}

fn update(document: &Document) -> Fields {
    let Document {
        id,
        kind,
        user,
        resource,
        body,
    } = document;
    let mut fields = doc! { "kind": kind, "user": user, "resource": resource };
    match Body::new(body) {
        Body::Value(value) => fields.insert("body", value),
        Body::Text(text) => fields.insert("text", text),
    };
    doc! { "q": { "_id": id }, "u": fields, "upsert": true }
}

fn read(mut fields: Fields) -> Option<Document> {
    let body = match (fields.remove("text"), fields.remove("body")) {
        (Some(Bson::String(text)), _) => Body::Text(text),
        (_, Some(value)) => Body::Value(value),
        _ => return None,
    };
    let mut take = |name: &str| match fields.remove(name) {
        Some(Bson::String(text)) => Some(text),
        _ => None,
    };
    Some(Document {
        id: take("_id")?,
        kind: take("kind")?,
        user: take("user")?,
        resource: take("resource")?,
        body: body.into_text()?,
    })
}

fn narrowed(filter: &DocumentFilter) -> Fields {
    let mut fields = Fields::new();
    let narrowings = [
        ("user", &filter.user),
        ("kind", &filter.kind),
        ("resource", &filter.resource),
    ];
    for (name, wanted) in narrowings {
        if let Some(wanted) = wanted {
            fields.insert(name, wanted);
        }
    }
    fields
}

/// The number of a group.
fn number(fields: &Fields) -> Option<u64> {
    let number = match fields.get("n")? {
        Bson::Int32(number) => i64::from(*number),
        Bson::Int64(number) => *number,
        _ => return None,
    };
    u64::try_from(number).ok()
}

#[async_trait]
impl DocumentSink for MongoDb {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        check_documents(collection, documents)?;
        // The later of two counts.
        let by_id = documents.iter().map(|document| (&document.id, document));
        let by_id: BTreeMap<_, _> = by_id.collect();
        if by_id.is_empty() {
            return Ok(());
        }
        let target = self.collection(collection);
        self.index(&target).await?;
        let updates = by_id.into_values().map(update).collect();
        for (number, part) in parts(updates).iter().enumerate() {
            let sent = self.send(target.name(), part).await;
            // Those before it are stored.
            sent.map_err(|error| match number {
                0 => error,
                _ => error::half_way().caused_by(error),
            })?;
        }
        Ok(())
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        check_document_search(collection, filter, after)?;
        let limit = limit.min(DOCUMENTS_MAX);
        // To the server none means all.
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut wanted = narrowed(filter);
        wanted.insert("_id", doc! { "$gt": after.unwrap_or_default() });
        let target = self.collection(collection);
        let found = target.find(wanted).sort(doc! { "_id": 1 });
        let found = found.limit(i64::try_from(limit).unwrap_or(i64::MAX)).await;
        let mut found = found.map_err(|failed| error::read(&failed))?;
        let mut documents = Vec::new();
        while found
            .advance()
            .await
            .map_err(|failed| error::read(&failed))?
        {
            let fields = found.deserialize_current();
            let fields = fields.map_err(|failed| error::read(&failed))?;
            documents.push(read(fields).ok_or_else(error::corrupt)?);
        }
        Ok(documents)
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        check_document_search(collection, &filter, None)?;
        let groups = [
            doc! { "$match": narrowed(&filter) },
            doc! { "$group": { "_id": "$kind", "n": { "$sum": 1 } } },
        ];
        let found = self.collection(collection).aggregate(groups).await;
        let mut found = found.map_err(|failed| error::read(&failed))?;
        let mut counts = BTreeMap::new();
        while found
            .advance()
            .await
            .map_err(|failed| error::read(&failed))?
        {
            let fields: Fields = found
                .deserialize_current()
                .map_err(|failed| error::read(&failed))?;
            let kind = fields.get_str("_id").map_err(|_| error::corrupt())?;
            let count = number(&fields).ok_or_else(error::corrupt)?;
            counts.insert(kind.to_owned(), count);
        }
        Ok(counts)
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        check_document_search(collection, filter, None)?;
        let target = self.collection(collection);
        let cleared = target.delete_many(narrowed(filter)).await;
        cleared
            .map(|_| ())
            .map_err(|failed| error::written(&failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(body: &str) -> Document {
        Document {
            id: "i".into(),
            kind: "k".into(),
            user: "u".into(),
            resource: "r".into(),
            body: body.into(),
        }
    }

    #[test]
    fn a_document_is_read_as_it_was_sent() {
        for body in ["{\"a\":[1,2]}", "null", "18446744073709551615", "\"text\""] {
            let mut update = update(&document(body));
            let fields = update.remove("u");
            let mut fields = fields.as_ref().and_then(Bson::as_document).cloned();
            if let Some(fields) = &mut fields {
                fields.insert("_id", "i");
            }
            assert_eq!(fields.and_then(read), Some(document(body)));
        }
        assert_eq!(read(doc! { "_id": 1, "body": {} }), None);
    }

    #[test]
    fn a_race_for_a_new_document_is_tried_again() {
        let race = doc! { "index": 0, "code": DUPLICATE_KEY };
        let other = doc! { "index": 1, "code": 121 };
        assert_eq!(judge(&doc! { "ok": 1 }), Reply::Done);
        let reply = doc! { "ok": 1, "writeErrors": [race.clone()] };
        assert_eq!(judge(&reply), Reply::Again);
        let reply = doc! { "ok": 1, "writeErrors": [race, other] };
        assert_eq!(judge(&reply), Reply::Failed);
        let reply = doc! { "ok": 1, "writeConcernError": { "code": 64 } };
        assert_eq!(judge(&reply), Reply::Failed);
    }

    #[test]
    fn a_command_has_a_bounded_size() {
        let large = format!("\"{}\"", "x".repeat(4 * 1024 * 1024 - 2));
        let updates = (0..9).map(|_| update(&document(&large))).collect();
        let sizes: Vec<_> = parts(updates).iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 3, 3]);
    }
}
