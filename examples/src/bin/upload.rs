//! Uploading a file to a storage in parts. A broken connection continues where it was, and a lost
//! last answer is asked for: completing an upload twice would create a second version of the file.
//!
//! ```sh
//! cargo run -p clinch-examples --bin upload
//! ```
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clinch::types::{Builder, Probed, Request};
use clinch::{Backend, Call, Clinch, Done, Fail, Refusal, Retry, Route};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of one part.
const PART: usize = 64 * 1024;

/// The payload names the content and does not hold it: a payload is stored with every operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Upload {
    /// Where the bytes are, for as long as the operation is open.
    file: PathBuf,
    /// Where they go.
    object: String,
    /// What they are. Another content under the same keys is refused, and so is a file that
    /// changed.
    sha256: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Uploaded {
    version: u32,
}

/// Unsafe, the default: nobody may complete an upload twice. The probe asks the storage instead.
fn route() -> Route<Upload, Uploaded> {
    Route::new("files", "upload").destination("storage")
}

/// `key` names the caller's intent, such as the night of a backup: the same content may be uploaded
/// twice on purpose.
fn upload(file: PathBuf, object: &str, key: &str) -> std::io::Result<Request<Uploaded>> {
    let sha256 = checksum(&std::fs::read(&file)?);
    let upload = Upload {
        file,
        object: object.to_owned(),
        sha256,
    };
    Ok(route().request(object, key, &upload))
}

fn checksum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an earlier attempt did: kept with `Call::save`.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    upload: u32,
    parts: usize,
}

/// The executor.
async fn send(storage: Storage, call: Call<Upload>) -> Result<Done<Uploaded>, Refusal> {
    let Upload {
        file,
        object,
        sha256,
    } = &call.input;
    let bytes =
        std::fs::read(file).map_err(|_| Fail::new("file_gone", "the file cannot be read"))?;
    if checksum(&bytes) != *sha256 {
        return Err(Fail::new("file_changed", "the file is not the one that was asked for").into());
    }
    let saved = call
        .saved()
        .and_then(|saved| serde_json::from_slice(saved).ok());
    let mut progress = match saved {
        Some(progress) => progress,
        None => Progress {
            upload: storage.begin(object).map_err(broken_before_the_end)?,
            parts: 0,
        },
    };
    for part in bytes.chunks(PART).skip(progress.parts) {
        let put = storage.put(progress.upload, progress.parts, part, &checksum(part));
        put.map_err(broken_before_the_end)?;
        progress.parts += 1;
        let state = serde_json::to_vec(&progress).unwrap_or_default();
        // Without it the next attempt begins earlier: no reason to stop.
        let _ = call.save(&state).await;
    }
    match storage.complete(progress.upload, sha256) {
        Ok(version) => Ok(Done::new(Uploaded { version }).txn_id(format!("{object}@{version}"))),
        // The object may be there.
        Err(Broken) => Err(Retry::unknown("the connection broke at the end").into()),
    }
}

/// Parts are invisible until the upload is complete: repeating one changes nothing.
fn broken_before_the_end(_: Broken) -> Refusal {
    Retry::not_applied("the connection broke in the middle").into()
}

/// The probe: HEAD tells whose content is there.
async fn head(storage: Storage, call: Call<Upload>) -> Result<Probed<Uploaded>, Broken> {
    Ok(match storage.head(&call.input.object)? {
        Some((version, sha256)) if sha256 == call.input.sha256 => {
            Probed::Succeeded(Done::new(Uploaded { version }))
        }
        // Not there, or an older version: nobody knows whether it is still on its way.
        Some(_) | None => Probed::NotFound,
    })
}

fn with_storage(builder: Builder, storage: &Storage) -> Builder {
    let (sender, asked) = (storage.clone(), storage.clone());
    builder
        .handle(&route(), move |call| send(sender.clone(), call))
        .probe(&route(), move |call| head(asked.clone(), call))
}

/// The connection to the storage broke.
#[derive(Debug)]
struct Broken;

/// Stands in for a storage with multipart uploads.
#[derive(Clone, Default)]
struct Storage(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    open: BTreeMap<u32, (String, BTreeMap<usize, Vec<u8>>)>,
    objects: BTreeMap<String, (u32, String)>,
    parts_put: usize,
    /// The put of a part that breaks, by its number in the order of all puts.
    breaks_at: Option<usize>,
    /// The answer to the next complete is lost.
    loses_answer: bool,
}

impl Storage {
    fn shelf(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, object: &str) -> Result<u32, Broken> {
        let mut shelf = self.shelf();
        let upload = u32::try_from(shelf.open.len()).unwrap_or(u32::MAX);
        shelf
            .open
            .insert(upload, (object.to_owned(), BTreeMap::new()));
        Ok(upload)
    }

    fn put(&self, upload: u32, number: usize, part: &[u8], sha256: &str) -> Result<(), Broken> {
        let mut shelf = self.shelf();
        shelf.parts_put += 1;
        if shelf.breaks_at == Some(shelf.parts_put) || checksum(part) != sha256 {
            return Err(Broken);
        }
        let (_, parts) = shelf.open.get_mut(&upload).ok_or(Broken)?;
        parts.insert(number, part.to_vec());
        Ok(())
    }

    fn complete(&self, upload: u32, sha256: &str) -> Result<u32, Broken> {
        let mut shelf = self.shelf();
        let (object, parts) = shelf.open.get(&upload).ok_or(Broken)?;
        let whole: Vec<u8> = parts.values().flatten().copied().collect();
        if checksum(&whole) != sha256 {
            return Err(Broken);
        }
        let object = object.clone();
        let (version, known) = shelf.objects.entry(object).or_default();
        *version += 1;
        sha256.clone_into(known);
        let version = *version;
        match std::mem::take(&mut shelf.loses_answer) {
            true => Err(Broken),
            false => Ok(version),
        }
    }

    fn head(&self, object: &str) -> Result<Option<(u32, String)>, Broken> {
        Ok(self.shelf().objects.get(object).cloned())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let storage = Storage::default();
    storage.shelf().breaks_at = Some(1);
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = with_storage(builder, &storage).build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    let file = std::env::current_exe()?;
    let handle = clinch
        .start(
            upload(file, "backups/program", "first")?,
            std::time::Duration::from_secs(30),
        )
        .await?;
    println!("{:?}, after a connection that broke", handle.settled());
    clinch.stop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clinch::testing::{self, Test};

    use super::*;

    /// A file that goes away with the test.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, parts: usize) -> Self {
            let name = format!("clinch-upload-{name}-{}", std::process::id());
            let file = Self(std::env::temp_dir().join(name));
            let bytes: Vec<u8> = (0..parts * PART).map(|at| (at / PART) as u8).collect();
            std::fs::write(&file.0, bytes).expect("written");
            file
        }

        fn request(&self) -> Request<Uploaded> {
            let key = self.0.display().to_string();
            upload(self.0.clone(), "backups/monday", &key).expect("a file")
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn started(storage: &Storage) -> Test {
        testing::start(with_storage(Clinch::builder(), storage)).expect("it starts")
    }

    #[tokio::test]
    async fn a_broken_connection_continues_with_the_part_that_broke() {
        let (storage, file) = (Storage::default(), File::new("continues", 5));
        storage.shelf().breaks_at = Some(4);
        let test = started(&storage);
        let handle = test
            .clinch
            .start(file.request(), Duration::ZERO)
            .await
            .expect("accepted");
        let done = test.assert_completed(&route(), handle.op_id()).await;
        assert_eq!(done.value, Uploaded { version: 1 });
        assert_eq!(storage.shelf().parts_put, 6, "five parts, and one again");
        assert_eq!(test.attempts(handle.op_id()).await, 2);
    }

    #[tokio::test]
    async fn a_lost_last_answer_is_asked_for_and_makes_no_second_version() {
        let (storage, file) = (Storage::default(), File::new("lost", 2));
        storage.shelf().loses_answer = true;
        let test = started(&storage);
        let handle = test
            .clinch
            .start(file.request(), Duration::ZERO)
            .await
            .expect("accepted");
        let done = test.assert_completed(&route(), handle.op_id()).await;
        assert_eq!(done.value, Uploaded { version: 1 });
        assert_eq!(
            test.attempts(handle.op_id()).await,
            1,
            "HEAD told what happened"
        );
        assert_eq!(
            storage
                .head("backups/monday")
                .expect("there")
                .expect("there")
                .0,
            1
        );
    }

    #[tokio::test]
    async fn a_file_that_changed_or_went_away_is_not_uploaded() {
        let (storage, file) = (Storage::default(), File::new("changed", 1));
        let test = started(&storage);
        let request = file.request();
        std::fs::write(&file.0, b"something else").expect("written");
        let handle = test
            .clinch
            .start(request, Duration::ZERO)
            .await
            .expect("accepted");
        let failure = test.assert_failed(&route(), handle.op_id()).await;
        assert_eq!(failure.code, "file_changed");
        let gone = File::new("gone", 1);
        let request = gone.request();
        drop(gone);
        let handle = test
            .clinch
            .start(request, Duration::ZERO)
            .await
            .expect("accepted");
        let failure = test.assert_failed(&route(), handle.op_id()).await;
        assert_eq!(failure.code, "file_gone");
        assert_eq!(storage.shelf().parts_put, 0);
    }
}
