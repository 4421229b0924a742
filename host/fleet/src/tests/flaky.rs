//! A store whose requests fail: before they have an effect, after it, or late.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What happens to a request that creates a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It fails, and has no effect.
    Before,
    /// It has its effect, and fails.
    After,
    /// It fails, and has its effect when [`Flaky::deliver`] is called.
    Late,
}

/// A store with faults.
#[derive(Debug)]
pub(super) struct Flaky {
    inner: Arc<dyn ObjectStore>,
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Vec<(Path, PutPayload)>>,
    /// Whether all requests fail.
    pub(super) is_down: Mutex<bool>,
}

impl Flaky {
    pub(super) fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        let (faults, late, is_down) = <_>::default();
        Arc::new(Self { inner, faults, late, is_down })
    }

    /// The faults of the next requests that create a commit, one for each.
    pub(super) fn fail(&self, faults: &[Fault]) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Lets the late requests have their effect. Returns the errors.
    pub(super) async fn deliver(&self) -> Vec<Option<Error>> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut errors = Vec::new();
        for (place, payload) in late {
            let options = PutOptions::from(object_store::PutMode::Create);
            errors.push(self.inner.put_opts(&place, payload, options).await.err());
        }
        errors
    }

    fn check(&self) -> Result<()> {
        if *self.is_down.lock().unwrap() { Err(error()) } else { Ok(()) }
    }
}

fn error() -> Error {
    Error::Generic { store: "flaky", source: "503 Service Unavailable".into() }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(
        &self,
        place: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.check()?;
        let is_commit = place.as_ref().starts_with("commits/");
        let fault = if is_commit { self.faults.lock().unwrap().pop_front() } else { None };
        match fault {
            None => self.inner.put_opts(place, payload, options).await,
            Some(Fault::Before) => Err(error()),
            Some(Fault::After) => {
                self.inner.put_opts(place, payload, options).await?;
                Err(error())
            }
            Some(Fault::Late) => {
                self.late.lock().unwrap().push((place.clone(), payload));
                Err(error())
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        place: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(place, options).await
    }

    async fn get_opts(&self, place: &Path, options: GetOptions) -> Result<GetResult> {
        self.check()?;
        self.inner.get_opts(place, options).await
    }

    fn delete_stream(
        &self,
        places: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(places)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
