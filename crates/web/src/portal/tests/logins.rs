//! Logins at a time, in several tabs, and a provider that changes its keys or does not know the portal.

use super::*;

impl Browser<'_> {
    /// The request of a callback, with the cookies of now.
    fn request(&self, path: &str) -> Request {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(path).header(HOST, PORTAL).header(COOKIE, cookies.join("; "));
        request.body(Body::empty()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_comes_many_times_asks_the_provider_once() {
    let site = Site::open();
    let mut mallory = site.browser();
    let callback = mallory.begin("/login").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..64 {
        calls.spawn(site.router.clone().oneshot(mallory.request(&callback)));
    }
    // A login of another user meanwhile.
    let mut alice = site.browser();
    alice.log_in().await;
    let answers = calls.join_all().await;
    let statuses: Vec<StatusCode> = answers.into_iter().map(|answer| answer.unwrap().status()).collect();
    let begun = statuses.iter().filter(|status| **status == StatusCode::SEE_OTHER).count();
    let refused = statuses.iter().filter(|status| **status == StatusCode::FORBIDDEN).count();
    assert_eq!((begun, refused), (1, 63), "{statuses:?}");
    assert_eq!(site.provider.asked(), 2, "once for each login");
    assert_eq!(site.provider.described(), 1, "what is known is not asked for again");
}

#[tokio::test]
async fn two_tabs_log_in_at_a_time() {
    let site = Site::open();
    let mut browser = site.browser();
    let first = browser.begin("/login?to=%2Fjobs").await;
    let second = browser.begin("/login?to=%2Fsubmit").await;
    assert_eq!(browser.cookies.len(), 2);
    assert_eq!(browser.led(&first).await, "/jobs");
    assert_eq!(browser.led(&second).await, "/submit");
    assert_eq!(browser.cookies.len(), 1, "the session's: {:?}", browser.cookies);
    assert_eq!(browser.user().await, "alice");
    for _ in 0..20 {
        browser.begin("/login").await;
    }
    assert_eq!(browser.cookies.len(), 6, "logins that were given up do not pile up");
}

#[tokio::test]
async fn keys_may_change_twice_in_a_row() {
    let site = Site::open();
    site.browser().log_in().await;
    for _ in 0..3 {
        site.provider.change_key();
        site.browser().log_in().await;
    }
    // Tokens with an unknown key do not have the provider asked without bound.
    site.provider.fail_with(Fault::Signature);
    for _ in 0..10 {
        let mut browser = site.browser();
        let callback = browser.begin("/login").await;
        assert_eq!(browser.status(&callback).await, StatusCode::FORBIDDEN);
    }
    assert_eq!(site.provider.described(), 6);
}

#[tokio::test]
async fn a_wrong_secret_of_the_portal_is_no_fault_of_the_user() {
    let site = Site::open();
    site.provider.fail_with(Fault::Client);
    let mut browser = site.browser();
    let callback = browser.begin("/login").await;
    let (status, page) = browser.get(&callback).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
    assert!(page.contains("operators find the reason") && !page.contains("invalid_client"), "{page}");
}

#[tokio::test]
async fn an_empty_file_of_authorities_is_refused() {
    let site = Site::open();
    let path = site.dir.path().join("portal.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(site.dir.path().join("none.pem"), "").unwrap();
    std::fs::write(&path, text.replace("claim = ", "ca = \"none.pem\"\nclaim = ")).unwrap();
    let error = Site::try_portal(&path).map(drop).unwrap_err();
    assert!(error.contains("none.pem: expected at least one certificate, found none"), "{error}");
}
