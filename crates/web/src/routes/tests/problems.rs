//! What is wrong with requests, in the words of RFC 9457.

use super::*;

/// Whatever is wrong with a request to the API is a problem document, which says the status of the answer.
#[tokio::test]
async fn errors_of_the_api_are_problem_documents() {
    let pages = Pages::open().await;
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    let own = |request: http::request::Builder| request.header("x-csrf-token", &pages.csrf);
    let text = || own(Request::post("/api/v1/jobs").header(HOST, OWN)).header(CONTENT_TYPE, "text/plain");
    for (status, request, body) in [
        (400, own(post("/api/v1/jobs/cancel")), "{"),
        (400, own(post("/api/v1/jobs/cancel")), "{\"jobs\": []}"),
        (400, get("/api/v1/jobs?page=x"), ""),
        (400, get("/api/v1/jobs?state=LOST"), ""),
        (403, post("/api/v1/jobs/cancel"), "{}"),
        (403, get("/api/v1/what-if/schedules/0"), ""),
        (404, get("/api/v1/what-if/schedules/x"), ""),
        (404, get("/api/v1/what-if/schedules/%ff"), ""),
        (404, get("/api/v1/what-if/schedules/99999999999999999999"), ""),
        (404, get("/api/v1/work/%ff"), ""),
        (404, get("/api/v1/work/%ff/rows"), ""),
        (404, get("/api/v1/work/%ff/points?x=a&y=b"), ""),
        (404, get("/api/v1/jobs/%ff"), ""),
        (404, get("/api/v1/jobs/lyon"), ""),
        (404, get("/api/v1/none"), ""),
        (404, get("/api/v1/"), ""),
        (404, get("/api/"), ""),
        (404, get("/api"), ""),
        (404, get("/api/v2/jobs"), ""),
        (405, own(Request::delete("/api/v1/jobs").header(HOST, OWN)), ""),
        (405, own(post("/assets/web.css")), ""),
        (405, own(post("/open")), ""),
        (413, own(post("/api/v1/jobs")), &long),
        (415, text(), "{}"),
        (421, Request::get("/api/v1/jobs").header(HOST, "evil.example"), ""),
        (503, get("/api/v1/jobs/lyon.1"), ""),
    ] {
        let asked = format!("{:?} {:?}", request.method_ref(), request.uri_ref());
        let (response, document) = answer(&pages.router, request.header(COOKIE, &pages.cookie), body).await;
        assert_eq!(response.status().as_u16(), status, "{asked}: {document}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json", "{asked}: {document}");
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["status"], status, "{asked}");
        assert_eq!(document["title"], response.status().canonical_reason().unwrap(), "{asked}");
        assert_ne!(document["detail"], "", "{asked}");
    }
    let (response, _) = answer(&pages.router, get("/api/v1/jobs"), "").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["www-authenticate"]),
        (401, "Bearer".parse().as_ref().unwrap())
    );
    let json =
        own(Request::post("/api/v1/jobs/cancel").header(HOST, OWN)).header(CONTENT_TYPE, "Application/JSON");
    assert_eq!(pages.status(json, "{\"jobs\": []}").await, StatusCode::BAD_REQUEST, "types have no case");
    // People read pages.
    for path in ["/none", "/jobs/%ff", "/work/%ff", "/launches/%ff/0"] {
        let (response, page) = answer(&pages.router, get(path).header(COOKIE, &pages.cookie), "").await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(page.starts_with("<!DOCTYPE html>"), "{path}: {page}");
    }
}
