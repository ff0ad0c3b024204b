//! Typed services: their form, the values of a call on the page of its job, and `pliant call`.

use super::browser::{clean, click, fill, look};
use super::chromium::Browser;
use super::*;

/// A service whose calls multiply a matrix by a vector, and name what they got.
const SERVICES: &str = r#"
[[service]]
name = "multiply"
summary = "the product of a matrix and a vector"
signature = ["in int n", "in double a[n][n]", "in double x[n]", "in string note", "out double y[n]", "out string said[80]"]
command = ["/usr/bin/awk", "-v", "n={n}", "-v", "note={note}", 'FILENAME == ARGV[1] {{ a[k++] = $1 }} FILENAME == ARGV[2] {{ x[l++] = $1 }} END {{ for (i = 0; i < n; i++) {{ s = 0; for (j = 0; j < n; j++) s += a[i * n + j] * x[j]; print s > "y" }} print note }}', "{a}", "{x}"]
speedup = "rigid:1"
runtime = "1s"

[service.parameters.n]
min = 1
max = 100

[service.parameters.a]
format = "text"

[service.parameters.x]
format = "text"

[service.parameters.y]
format = "text"

[service.parameters.said]
output = "stdout"

[[service]]
name = "lines"
signature = ["in file data", "out int lines"]
command = ["/bin/sh", "-c", "wc -l < {data} > lines", "count"]
speedup = "rigid:1"
runtime = "1s"
"#;

const MULTIPLY: &str =
    "in int n, in double a[n][n], in double x[n], in string note, out double y[n], out string said[80]";

async fn started() -> Federation {
    let cluster = Cluster::new("lyon", 4, 1.0);
    let tables = format!("{SERVICES}\n{}", cluster.tables);
    Federation::start(&[Cluster { tables, ..cluster }]).await
}

fn multiply(values: Value) -> Value {
    json!({ "work": { "kind": "call", "name": "multiply", "signature": MULTIPLY, "values": values } })
}

async fn ended(pages: &Pages, id: &str) -> Value {
    let path = format!("/api/v1/jobs/{id}/call");
    until("the end of the call", async || {
        let call = pages.json(&path);
        (!call["outcome"].is_null()).then_some(call)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_service_is_called_with_values() {
    let federation = started().await;
    let pages = Pages::opened(&federation, Role::User, "alice");
    let services = pages.json("/api/v1/services");
    let typed = services["typed"].as_array().unwrap();
    let found = typed.iter().find(|one| one["name"] == "multiply").unwrap();
    assert_eq!((&found["signature"], &found["servers"]), (&json!(MULTIPLY), &json!(["lyon"])));
    let matrix =
        json!({ "name": "a", "direction": "in", "kind": "matrix", "of": "double", "sizes": ["n", "n"] });
    assert_eq!(found["parameters"][1], matrix);

    let right = json!({ "n": "2", "a": "1 2\n3 4\n", "x": "10, 0.5", "note": HOSTILE });
    let estimates = pages.post("/api/v1/estimates", &multiply(right.clone())).json(200);
    assert_eq!(estimates["estimates"][0]["server"], "lyon");
    let expected = format!("pliant call multiply a='1 2 3 4' n=2 note=\"{HOSTILE}\" x='10, 0.5'");
    assert_eq!(estimates["command"], json!(expected));
    for (values, problem) in [
        (
            json!({ "n": "2", "a": "1 2 3", "x": "1 2", "note": "" }),
            "values: `a`: expected 4 numbers (double[2][2]), found 3",
        ),
        (
            json!({ "n": "two", "a": "1", "x": "1", "note": "" }),
            "values: `n`: expected a number of type int, found `two`",
        ),
        (json!({ "n": "1", "a": "1", "note": "" }), "values: `x`: expected in double x[n], found no value"),
    ] {
        for path in ["/api/v1/estimates", "/api/v1/jobs"] {
            assert_eq!(pages.post(path, &multiply(values.clone())).json(400)["detail"], json!(problem));
        }
    }
    // The range of a number is the server's to check.
    let too_large = json!({ "n": "0", "a": "", "x": "", "note": "" });
    let refused = pages.post("/api/v1/jobs", &multiply(too_large)).json(422);
    assert!(
        refused["detail"].as_str().unwrap().contains("`n`: expected a whole number of 1 to 100"),
        "{refused}"
    );

    let job = pages.post("/api/v1/jobs", &multiply(right.clone())).json(201);
    let id = job["job_id"].as_str().unwrap();
    let call = ended(&pages, id).await;
    assert_eq!((&call["outcome"], &call["service"]), (&json!("completed"), &json!("multiply")));
    assert_eq!(
        call["values"][1]["argument"],
        json!({ "of": "double[2][2]", "text": "1 2\n3 4\n", "cut": false })
    );
    assert_eq!(call["values"][4]["result"], json!({ "of": "double[2]", "text": "11\n32\n", "cut": false }));
    assert_eq!(call["values"][5]["result"]["text"], json!(HOSTILE));
    let value = pages.get(&format!("/api/v1/jobs/{id}/call/y"));
    assert_eq!((value.status, value.text().as_str()), (200, "11\n32\n"));
    assert_eq!(value.header("content-disposition"), Some("attachment; filename*=UTF-8''y.txt"));
    assert_eq!(pages.get(&format!("/api/v1/jobs/{id}/call/n")).status, 404);
    let submitted = pages.json(&format!("/api/v1/jobs/{id}/submitted"));
    assert_eq!(submitted["work"]["signature"], json!(MULTIPLY));
    assert_eq!(submitted["work"]["values"]["x"], "10\n0.5\n");
    let bob = Pages::opened(&federation, Role::User, "bob");
    assert_eq!(bob.get(&format!("/api/v1/jobs/{id}/call")).status, 404);
    assert_eq!(bob.get(&format!("/api/v1/jobs/{id}/call/y")).status, 404);

    // A file goes under the name of its parameter.
    let count = json!({
        "work": { "kind": "call", "name": "lines", "signature": "in file data, out int lines" },
        "files": [{ "name": "data", "base64": "YQpiCg==" }],
    });
    let job = pages.post("/api/v1/jobs", &count).json(201);
    let call = ended(&pages, job["job_id"].as_str().unwrap()).await;
    assert_eq!(call["values"][1]["result"]["text"], "2", "{call}");
    let other = json!({ "work": { "kind": "service", "name": "say", "arguments": { "text": "hi" } } });
    let job = pages.post("/api/v1/jobs", &other).json(201);
    assert_eq!(pages.get(&format!("/api/v1/jobs/{}/call", job["job_id"].as_str().unwrap())).status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_calls_a_typed_service() {
    let federation = started().await;
    let user = CommandUser::new(&federation, "alice");
    std::fs::write(user.dir().join("a.txt"), "1 2\n3 4\n").unwrap();
    std::fs::write(user.dir().join("data.txt"), "one\ntwo\nthree\n").unwrap();
    let (code, document, error) = user.run("call multiply n=2 a=@a.txt x=10,0.5 note=hello");
    assert_eq!(code, 0, "{error}");
    assert_eq!(document["values"]["y"], json!({ "type": "double[2]", "text": "11\n32\n" }));
    let id = document["job"]["job_id"].as_str().unwrap().to_owned();
    let (code, again, error) = user.run(&format!("call --job {id}"));
    assert_eq!((code, &again["values"]), (0, &document["values"]), "{error}");
    let (code, document, error) = user.run("call lines data=data.txt");
    assert_eq!((code, &document["values"]["lines"]["text"]), (0, &json!("3")), "{error}");
    let refused = |line: &str, expected: &str| {
        let (code, _, error) = user.run(line);
        assert!(code == 2 && error.contains(expected), "{line}: {code} {error}");
    };
    refused("call multiply n=2 a=1 x=1,2 note=", "`a`: expected 4 numbers (double[2][2]), found 1");
    refused("call multiply n=2 b=1", "`b`: expected a parameter of `in int n,");
    refused("call say text=hi", "expected a service with a signature, found `say`");
    refused("call nothing", "expected a service that a server offers, found `nothing`");
    let (code, document, error) = user.run("call --detach lines data=data.txt");
    assert_eq!(code, 0, "{error}");
    assert!(document["job"]["job_id"].is_string() && document.get("values").is_none(), "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_service_has_a_form() {
    let federation = started().await;
    let Some(program) = pliant_testing::browser::find() else { return };
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    let site = Pages::start(&federation, Role::User, "alice");
    browser.open(&format!("http://{}{}", site.address, site.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.open(&format!("http://{}/submit?service=multiply", site.address));
    browser.until("document.querySelector('textarea[name=a]')");
    fill(&mut browser, "#arguments [name=n]", "2");
    fill(&mut browser, "#arguments [name=a]", "1 2\n3 4");
    fill(&mut browser, "#arguments [name=x]", "10 0.5 7");
    fill(&mut browser, "#arguments [name=note]", "the first of three");
    browser.until("document.querySelector('#best').textContent.includes('expected 2 numbers')");
    // The browser notes what the pages refuse.
    assert!(browser.problems().iter().all(|problem| problem.contains("/api/v1/estimates")));
    fill(&mut browser, "#arguments [name=x]", "10 0.5");
    browser.until("document.body.dataset.rendered === 'estimates:1'");
    browser.until("document.querySelector('#command').textContent.startsWith('pliant call multiply')");
    look(&mut browser, "submit-call");
    fill(&mut browser, "#arguments [name=note]", HOSTILE);
    browser.until("document.querySelector('#command').textContent.includes('onerror')");
    click(&mut browser, "#submit [type=submit]");
    browser.until("document.body.dataset.call === 'completed'");
    browser.until("document.querySelector('#call').textContent.includes('32')");
    look(&mut browser, "job-call");
    // The form of the same call again.
    click(&mut browser, "#resubmit");
    browser.until("document.querySelector('textarea[name=a]')?.value === '1 2\\n3 4\\n'");
    browser.until("document.body.dataset.rendered === 'estimates:1'");
    clean(&mut browser);
    assert_ne!(browser.evaluate("document.title"), "hacked");
}
