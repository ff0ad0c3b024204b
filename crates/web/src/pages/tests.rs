//! Markup of hostile texts.

use axum::body::to_bytes;
use maud::html;

use super::*;
use crate::secret::Secret;
use crate::sessions::Session;
use crate::types::SessionView;

const HOSTILE: &str = "\"><script>alert(1)</script>'&";

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn texts_of_users_are_no_markup() {
    let user = SessionView {
        user: HOSTILE.to_owned(),
        operator: true,
        certificate_not_after_s: 0,
        version: "1",
        replays: true,
        tokens: true,
    };
    let session = Session { csrf: Secret::draw().unwrap(), end: None };
    let page = text(frame::page(&user, &session, HOSTILE, HOSTILE, &html! { p { (HOSTILE) } })).await;
    let problem = Problem::new(StatusCode::NOT_FOUND, HOSTILE).hint(HOSTILE);
    for page in [page, text(problem_page(&problem)).await] {
        assert!(!page.contains("<script>") && !page.contains("alert(1)</script>"), "{page}");
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}

#[tokio::test]
async fn problems_for_programs_are_json_whatever_they_say() {
    let problem = Problem::new(StatusCode::NOT_FOUND, HOSTILE);
    let document: serde_json::Value = serde_json::from_str(&text(problem.into_response()).await).unwrap();
    assert_eq!((&document["detail"], &document["status"]), (&HOSTILE.into(), &404.into()));
}
