//! The port on the server's commands.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, check_document_search,
    check_documents, check_relocation,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document as Fields, doc};
use mongodb::{Collection, Cursor, IndexModel};

use crate::body::Body;
use crate::{MongoDb, error, names};

/// Bytes of one command, unless one document alone has more: below the 48 MB of a message.
const COMMAND_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Two callers that store the same new document at once may meet in the index; the second try
/// finds it there.
const TRIES_MAX: usize = 5;

/// The server's code for that.
const DUPLICATE_KEY: i32 = 11_000;

/// The field that every write sets anew: a relocation removes only what it has copied. Documents
/// of earlier releases have none.
const WRITE_ID: &str = "write_id";

impl MongoDb {
    fn collection(&self, collection: &str) -> Collection<Fields> {
        self.database.collection(&names::collection(collection))
    }

    /// Makes sure of the indexes for a user's documents and for those of a resource.
    async fn index(&self, collection: &Collection<Fields>) -> Result<()> {
        if self.is_indexed(collection.name()) {
            return Ok(());
        }
        let keys = [
            doc! { "user": 1, "kind": 1, "_id": 1 },
            doc! { "user": 1, "resource": 1, "kind": 1, "_id": 1 },
        ];
        let indexes = keys.map(|keys| IndexModel::builder().keys(keys).build());
        let made = collection.create_indexes(indexes);
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

    /// One page of the documents that the filter matches, with all fields or some.
    async fn find(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
        projection: Option<Fields>,
    ) -> Result<Vec<Fields>> {
        let mut wanted = narrowed(filter);
        wanted.insert("_id", doc! { "$gt": after.unwrap_or_default() });
        let target = self.collection(collection);
        let mut found = target.find(wanted).sort(doc! { "_id": 1 });
        found = found.limit(i64::try_from(limit).unwrap_or(i64::MAX));
        if let Some(projection) = projection {
            found = found.projection(projection);
        }
        let mut found = found.await.map_err(|failed| error::read(&failed))?;
        let mut page = Vec::new();
        while let Some(fields) = next(&mut found).await? {
            page.push(fields);
        }
        Ok(page)
    }

    /// Copies documents that fit into one command, and then removes those of them that are still as
    /// they were read; returns how many it removed.
    async fn carry(&self, from: &str, to: &str, read: &[Fields]) -> Result<u64> {
        let copies: Vec<Fields> = read.iter().filter_map(copy).collect();
        self.send(to, &copies).await?;
        let command = doc! {
            "delete": from,
            "deletes": read.iter().filter_map(removal).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": { "w": "majority", "j": true },
        };
        let reply = self.database.run_command(command).await;
        // The copies are there, whatever became of the command.
        let reply = reply.map_err(|failed| error::half_way().caused_by(error::written(&failed)))?;
        match judge(&reply) {
            Reply::Done => number(&reply).ok_or_else(error::half_way),
            Reply::Again | Reply::Failed => Err(error::half_way()),
        }
    }
}

/// The next document of a search.
async fn next(found: &mut Cursor<Fields>) -> Result<Option<Fields>> {
    let failed = |failed| error::read(&failed);
    match found.advance().await.map_err(failed)? {
        true => found.deserialize_current().map(Some).map_err(failed),
        false => Ok(None),
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

fn bytes_of(fields: &Fields) -> usize {
    fields.to_vec().map_or(0, |bytes| bytes.len())
}

/// Commands of a bounded size.
fn parts(updates: Vec<Fields>) -> Vec<Vec<Fields>> {
    let (mut parts, mut size) = (vec![Vec::new()], 0);
    for update in updates {
        let bytes = bytes_of(&update);
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
    fields.insert(WRITE_ID, ObjectId::new());
    match Body::new(body) {
        Body::Value(value) => fields.insert("body", value),
        Body::Text(text) => fields.insert("text", text),
    };
    doc! { "q": { "_id": id }, "u": fields, "upsert": true }
}

/// Stores a document as it was read.
fn copy(read: &Fields) -> Option<Fields> {
    let mut fields = read.clone();
    let id = fields.remove("_id")?;
    fields.insert(WRITE_ID, ObjectId::new());
    Some(doc! { "q": { "_id": id }, "u": fields, "upsert": true })
}

/// Removes a document unless it was written since it was read.
fn removal(read: &Fields) -> Option<Fields> {
    // To the server null means: null, or no such field.
    let write_id = read.get(WRITE_ID).cloned().unwrap_or(Bson::Null);
    let mut wanted = doc! { "_id": read.get("_id")?.clone() };
    wanted.insert(WRITE_ID, write_id);
    Some(doc! { "q": wanted, "limit": 1 })
}

fn read(mut fields: Fields) -> Option<Document> {
    let body = match (fields.remove("text"), fields.remove("body")) {
        (Some(Bson::String(text)), _) => Body::Text(text),
        (_, Some(value)) => Body::Value(value),
        _ => return None,
    };
    let DocumentName {
        id,
        kind,
        user,
        resource,
    } = read_name(fields)?;
    Some(Document {
        id,
        kind,
        user,
        resource,
        body: body.into_text()?,
    })
}

fn read_name(mut fields: Fields) -> Option<DocumentName> {
    let mut take = |name: &str| match fields.remove(name) {
        Some(Bson::String(text)) => Some(text),
        _ => None,
    };
    Some(DocumentName {
        id: take("_id")?,
        kind: take("kind")?,
        user: take("user")?,
        resource: take("resource")?,
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

/// The number of a group, or of a reply.
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
        let found = self.find(collection, filter, after, limit, None).await?;
        let documents = found.into_iter().map(read).collect::<Option<_>>();
        documents.ok_or_else(error::corrupt)
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        check_document_search(collection, filter, after)?;
        let limit = limit.min(DOCUMENTS_MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let names = doc! { "_id": 1, "kind": 1, "user": 1, "resource": 1 };
        let found = self.find(collection, filter, after, limit, Some(names));
        let names = found
            .await?
            .into_iter()
            .map(read_name)
            .collect::<Option<_>>();
        names.ok_or_else(error::corrupt)
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
        while let Some(fields) = next(&mut found).await? {
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

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        check_relocation(from, to, ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let (source, target) = (self.collection(from), self.collection(to));
        let found = source.find(doc! { "_id": { "$in": ids } }).await;
        let mut found = found.map_err(|failed| error::read(&failed))?;
        self.index(&target).await?;
        let (mut part, mut size, mut moved, mut is_begun) = (Vec::new(), 0, 0, false);
        // What was carried before an error stays carried.
        let begun = |is_begun: bool, error| match is_begun {
            false => error,
            true => error::half_way().caused_by(error),
        };
        loop {
            let fields = next(&mut found).await;
            let fields = fields.map_err(|error| begun(is_begun, error))?;
            let bytes = fields.as_ref().map_or(0, bytes_of);
            let is_full = size + bytes > COMMAND_BYTES_MAX;
            if !part.is_empty() && (is_full || fields.is_none()) {
                let carried = self.carry(source.name(), target.name(), &part).await;
                moved += carried.map_err(|error| begun(is_begun, error))?;
                (part, size, is_begun) = (Vec::new(), 0, true);
            }
            match fields {
                Some(fields) => part.push(fields),
                None => return Ok(moved),
            }
            size += bytes;
        }
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
    fn a_copy_is_the_same_document_and_only_what_was_read_is_removed() {
        let mut update = update(&document("[1]"));
        let mut fields = match update.remove("u") {
            Some(Bson::Document(fields)) => fields,
            other => panic!("{other:?}"),
        };
        fields.insert("_id", "i");
        let copied = copy(&fields).expect("a copy");
        let written = copied.get_document("u").expect("fields");
        assert_ne!(written.get(WRITE_ID), fields.get(WRITE_ID), "another write");
        let mut again = written.clone();
        again.insert("_id", "i");
        assert_eq!(read(again), Some(document("[1]")));
        let removed = removal(&fields).expect("a removal");
        let wanted = removed.get_document("q").expect("a condition");
        assert_eq!(wanted.get(WRITE_ID), fields.get(WRITE_ID));
        fields.remove(WRITE_ID);
        let removed = removal(&fields).expect("a removal");
        let wanted = removed.get_document("q").expect("a condition");
        assert_eq!(
            wanted.get(WRITE_ID),
            Some(&Bson::Null),
            "of earlier releases"
        );
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
