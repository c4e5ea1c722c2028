//! Where a dataset lies.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::file::VERSION;

/// Where a dataset lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetLocation {
    /// A folder.
    Folder(PathBuf),
    /// A part of a bucket.
    S3(S3Location),
}

/// A part of a bucket of an S3-compatible object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Location {
    bucket: String,
    /// What all keys begin with, without a slash at its ends; empty for the whole bucket.
    prefix: String,
}

/// A location that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// Another kind of store.
    #[error(
        "{0}: only folders and s3:// are known. Try: s3://BUCKET/PREFIX, with AWS_ENDPOINT_URL for other stores"
    )]
    Scheme(String),
    /// A bucket that has no name, or one that S3 does not allow.
    #[error("{0}: the bucket's name is missing or not allowed. Try: s3://BUCKET/PREFIX")]
    Bucket(String),
}

impl DatasetLocation {
    /// From a command line or a configuration: `s3://bucket/prefix`, or a folder.
    ///
    /// # Errors
    /// [`LocationError`] for other URLs.
    pub fn parse(text: &OsStr) -> Result<Self, LocationError> {
        // What is no UTF-8 is no URL.
        let Some((scheme, rest)) = text.to_str().and_then(|text| text.split_once("://")) else {
            return Ok(Self::Folder(text.into()));
        };
        let whole = || text.to_string_lossy().into_owned();
        if scheme != "s3" {
            return Err(LocationError::Scheme(whole()));
        }
        S3Location::new(rest).map(Self::S3).ok_or_else(|| LocationError::Bucket(whole()))
    }

    /// Folder or URL of a table, without a slash at its end.
    #[must_use]
    pub fn table(&self, table: &str) -> String {
        match self {
            Self::Folder(root) => root.join(VERSION).join(table).display().to_string(),
            Self::S3(place) => format!("s3://{}/{}", place.bucket, place.key(table)),
        }
    }
}

impl From<&Path> for DatasetLocation {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl fmt::Display for DatasetLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(root) => root.display().fmt(f),
            Self::S3(place) => place.fmt(f),
        }
    }
}

impl S3Location {
    /// From what comes after `s3://`.
    fn new(text: &str) -> Option<Self> {
        let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
        // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; other stores take capitals, too.
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        let parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
        let is_path = parts.iter().all(|part| !matches!(*part, "." | ".."));
        let good = !bucket.is_empty() && bucket.chars().all(is_allowed) && is_path;
        good.then(|| Self { bucket: bucket.to_owned(), prefix: parts.join("/") })
    }

    /// Name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What the keys of a table begin with, without a slash at its end.
    #[must_use]
    pub fn key(&self, table: &str) -> String {
        self.below(&format!("{VERSION}/{table}"))
    }

    /// A key below the dataset.
    #[must_use]
    pub fn below(&self, path: &str) -> String {
        if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) }
    }
}

impl fmt::Display for S3Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatasetLocation, LocationError> {
        DatasetLocation::parse(text.as_ref())
    }

    #[test]
    fn a_location_is_a_folder_or_a_part_of_a_bucket() {
        assert_eq!(parse("profiles").unwrap(), Path::new("profiles").into());
        assert_eq!(parse("/mnt/profiles").unwrap().table("stacks"), "/mnt/profiles/v1/stacks");
        for (text, shown, table) in [
            ("s3://fleet", "s3://fleet", "s3://fleet/v1/stacks"),
            ("s3://fleet/", "s3://fleet", "s3://fleet/v1/stacks"),
            ("s3://fleet/a//b/", "s3://fleet/a/b", "s3://fleet/a/b/v1/stacks"),
        ] {
            let location = parse(text).unwrap();
            assert_eq!(
                (location.to_string(), location.table("stacks")),
                (shown.into(), table.into())
            );
        }
    }

    #[test]
    fn what_is_neither_is_named() {
        for text in ["gs://fleet/a", "http://host/a"] {
            assert_eq!(parse(text), Err(LocationError::Scheme(text.to_owned())));
        }
        for text in ["s3://", "s3:///a", "s3://a b/c", "s3://fleet/../other"] {
            assert_eq!(parse(text), Err(LocationError::Bucket(text.to_owned())), "{text}");
        }
    }
}
