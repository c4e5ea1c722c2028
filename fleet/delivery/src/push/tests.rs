use super::outgoing::name;
use super::*;
use crate::made;
use crate::otlp::OTLP_PATH;
use crate::pprof::{PprofLimits, pprof_profiles};

#[test]
fn paths_are_added_to_that_of_the_endpoint() {
    for (endpoint, url) in [
        ("http://web-1:4318", "http://web-1:4318/v1development/profiles"),
        ("https://web-1/otlp/", "https://web-1/otlp/v1development/profiles"),
    ] {
        assert_eq!(PushSink::otlp(endpoint).unwrap().url(OTLP_PATH).as_str(), url);
    }
}

#[test]
fn an_endpoint_is_a_url_of_http_and_credentials_are_never_shown() {
    for (endpoint, cause) in [
        ("web-1", "relative URL without a base"),
        ("s3://bucket", "it begins with neither"),
        ("http://a:secret@b/?x=1", "it has more than a host and a path"),
        ("http://a:secret@b:port", "invalid port number"),
    ] {
        let error = PushSink::pprof(endpoint).unwrap_err().to_string();
        assert!(error.contains(cause) && error.ends_with("Try: http://HOST:4040"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert_eq!(PushSink::otlp("https://a:secret@b").unwrap().endpoint(), "https://b/");
}

#[test]
fn names_have_no_letters_that_end_them() {
    let mut profile = pprof_profiles(&made::rows(), PprofLimits::PYROSCOPE).swap_remove(0);
    assert_eq!(name(&profile), "checkout{host=web-1,version=1.3,container=8f3a,pod=0d9f-11}");
    profile.service = "(sd-pam) {x}".to_owned();
    profile.labels = vec![("version", "1,2}".to_owned())];
    assert_eq!(name(&profile), "_sd-pam___x_{version=1_2_}");
    profile.service = String::new();
    assert_eq!(name(&profile), "unknown{version=1_2_}");
}
