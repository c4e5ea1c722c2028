//! S3-compatible object stores: a part of a bucket as a place for whole files.
//!
//! Credentials, region and endpoint come from where the AWS tools have them, too: the variables `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, a web identity token, or the metadata of the machine or
//! container. `~/.aws/config` is not read.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    PutPayload, RetryConfig,
};
use pmuscope_dataset::S3Location;

/// Time for a connection: a store that is there takes far less.
const CONNECT: Duration = Duration::from_secs(2);

/// What a store does not do.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {}. {}", reason(.source), advice(.source))]
pub struct StoreError {
    /// What was asked for.
    url: String,
    source: Error,
}

/// The innermost cause: the layers above it repeat it, and one another.
fn reason(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    // Answers of a store are XML of many lines.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn advice(error: &Error) -> &'static str {
    match error {
        Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
            "Try: other credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        Error::NotFound { .. } => "Try: another bucket or prefix",
        _ => "Try: AWS_ENDPOINT_URL and AWS_REGION of the store",
    }
}

impl StoreError {
    /// Whether there is no such object or bucket.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self.source, Error::NotFound { .. })
    }
}

/// What came of writing a new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is there now.
    Written,
    /// There was one of this name; it is as it was.
    Taken,
}

/// A part of a bucket.
#[derive(Debug, Clone)]
pub struct S3Store {
    location: S3Location,
    client: Arc<AmazonS3>,
}

impl S3Store {
    /// Opens a part of a bucket; nothing is asked of it yet. `endpoint` is the URL of a store that is not Amazon's;
    /// `give_up` is how long a request may take with all its repetitions.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn open(
        location: &S3Location,
        endpoint: Option<&str>,
        give_up: Duration,
    ) -> Result<Self, StoreError> {
        let variable = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok());
        let endpoint = endpoint.map(str::to_owned).or(variable);
        // Whoever writes http:// means it.
        let is_plain = endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(give_up)
            .with_allow_http(is_plain);
        let backoff = BackoffConfig { max_backoff: give_up / 4, ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: 5, retry_timeout: give_up };
        let mut builder = AmazonS3Builder::from_env()
            .with_client_options(options)
            .with_retry(retry)
            .with_bucket_name(location.bucket());
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let failed = |source| StoreError { url: location.to_string(), source };
        Ok(Self { location: location.clone(), client: Arc::new(builder.build().map_err(failed)?) })
    }

    /// The client of the whole bucket, for readers.
    #[must_use]
    pub fn client(&self) -> Arc<dyn ObjectStore> {
        Arc::<AmazonS3>::clone(&self.client)
    }

    /// Writes an object below the location, unless there is one of that name.
    ///
    /// # Errors
    /// A store that does not answer or refuses.
    pub async fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<PutOutcome, StoreError> {
        let key = self.key(path);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.client.put_opts(&key, PutPayload::from(bytes), options).await {
            Ok(_) => Ok(PutOutcome::Written),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(PutOutcome::Taken),
            Err(source) => Err(self.failed(&key, source)),
        }
    }

    /// Reads an object below the location.
    ///
    /// # Errors
    /// A store that does not answer, or no such object.
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        let key = self.key(path);
        let failed = |source| self.failed(&key, source);
        let bytes = self.client.get(&key).await.map_err(failed)?.bytes().await.map_err(failed)?;
        Ok(bytes.to_vec())
    }

    /// The names of what looks like folders below a path of the location.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn folders(&self, path: &str) -> Result<BTreeSet<String>, StoreError> {
        let key = self.key(path);
        let found = self.client.list_with_delimiter(Some(&key)).await;
        let found = found.map_err(|source| self.failed(&key, source))?;
        let name = |key: &Key| key.filename().map(str::to_owned);
        Ok(found.common_prefixes.iter().filter_map(name).collect())
    }

    fn key(&self, path: &str) -> Key {
        Key::from(self.location.below(path))
    }

    fn failed(&self, key: &Key, source: Error) -> StoreError {
        StoreError { url: format!("s3://{}/{key}", self.location.bucket()), source }
    }
}
