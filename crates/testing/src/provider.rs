//! A small OpenID provider with its own keys: it logs in a user without a question, and its tokens can be wrong.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form_urlencoded::{Serializer, parse};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// The portal's ID at the provider.
pub const CLIENT_ID: &str = "pliant-portal";
/// Its secret.
pub const CLIENT_SECRET: &str = "a secret: 100 %";

/// What is wrong with the tokens of a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// They are for another login.
    Nonce,
    /// They are for another portal.
    Audience,
    /// They are of another provider.
    Issuer,
    /// Their time is over.
    Expired,
    /// They are signed with a key that is not published.
    Signature,
    /// They are not signed.
    Unsigned,
    /// There are none: the provider does not know the portal.
    Client,
}

/// A provider that answers on a loopback port until the process ends.
#[derive(Clone)]
pub struct Provider {
    /// Its name: the URL of its pages.
    pub issuer: String,
    state: Arc<Mutex<State>>,
}

struct State {
    user: String,
    fault: Fault,
    key: Key,
    other_key: Key,
    /// Codes of logins that have not been used.
    codes: BTreeMap<String, Login>,
    logins: usize,
    /// How often the description was asked for.
    described: usize,
    /// How often tokens were asked for.
    asked: usize,
}

/// A login between its code and its token.
struct Login {
    user: String,
    nonce: String,
    challenge: String,
    redirect: String,
}

struct Key {
    id: &'static str,
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Key {
    fn new(id: &'static str) -> Key {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let document = document.expect("the system has random numbers");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Key { id, pair: pair.expect("the key was just made"), random }
    }

    fn published(&self) -> String {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        object(&[
            ("kty", "EC"),
            ("crv", "P-256"),
            ("alg", "ES256"),
            ("use", "sig"),
            ("kid", self.id),
            ("x", &x),
            ("y", &y),
        ])
    }

    fn sign(&self, message: &str) -> String {
        let signature = self.pair.sign(&self.random, message.as_bytes());
        URL_SAFE_NO_PAD.encode(signature.expect("the system has random numbers"))
    }
}

/// A JSON object of texts. They are plain: a JSON library here would be one more that tests of all crates are compiled with.
fn object(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| {
        assert!(
            value
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' ')
        );
        format!("\"{name}\": \"{value}\"")
    };
    format!("{{ {} }}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
}

impl Provider {
    /// Starts one that logs in that user.
    pub fn start(user: &str) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("it listens");
        let state = State {
            user: user.to_owned(),
            fault: Fault::None,
            key: Key::new("first"),
            // It has the same name as the first one.
            other_key: Key::new("first"),
            codes: BTreeMap::new(),
            logins: 0,
            described: 0,
            asked: 0,
        };
        let provider = Provider { issuer: format!("http://{address}"), state: Arc::new(Mutex::new(state)) };
        let serving = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let provider = serving.clone();
                // A client that goes away is no failure of the test.
                std::thread::spawn(move || provider.serve(stream).unwrap_or_default());
            }
        });
        provider
    }

    /// From now on another user logs in.
    pub fn log_in_as(&self, user: &str) {
        self.state().user = user.to_owned();
    }

    /// From now on tokens are wrong in that way.
    pub fn fail_with(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// From now on tokens are signed with a new key, which is published.
    pub fn change_key(&self) {
        self.state().key = Key::new("second");
    }

    /// How often the description was asked for.
    pub fn described(&self) -> usize {
        self.state().described
    }

    /// How often tokens were asked for.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    /// What a browser that opens the URL of a login is sent to.
    pub fn authorize(&self, url: &str) -> String {
        let query = url.strip_prefix(&self.issuer).and_then(|path| path.strip_prefix("/authorize?"));
        self.begin(query.unwrap_or_else(|| panic!("expected a login at {}, found {url}", self.issuer)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header == "\r\n" {
                break;
            }
            let (name, value) = header.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "authorization" => authorization = value.trim().to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let (status, more, text) = match path {
            "/.well-known/openid-configuration" => {
                self.state().described += 1;
                ("200 OK", String::new(), self.description())
            }
            "/keys" => {
                let key = self.state().key.published();
                ("200 OK", String::new(), format!("{{ \"keys\": [{key}] }}"))
            }
            "/authorize" => ("302 Found", format!("location: {}\r\n", self.begin(query)), String::new()),
            "/token" => match self.token(&authorization, &body) {
                Ok(token) => ("200 OK", String::new(), token),
                Err(error) => ("400 Bad Request", String::new(), object(&[("error", error)])),
            },
            _ => ("404 Not Found", String::new(), String::new()),
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\n{more}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        )
    }

    fn description(&self) -> String {
        let at = |path: &str| format!("{}{path}", self.issuer);
        object(&[
            ("issuer", &self.issuer),
            ("authorization_endpoint", &at("/authorize")),
            ("token_endpoint", &at("/token")),
            ("jwks_uri", &at("/keys")),
        ])
    }

    fn begin(&self, query: &str) -> String {
        let pairs: BTreeMap<String, String> = parse(query.as_bytes()).into_owned().collect();
        let of = |name: &str| {
            pairs.get(name).cloned().unwrap_or_else(|| panic!("a login without {name}: {query}"))
        };
        assert_eq!((of("response_type"), of("client_id")), ("code".to_owned(), CLIENT_ID.to_owned()));
        assert_eq!(of("code_challenge_method"), "S256");
        assert!(of("scope").split(' ').any(|scope| scope == "openid"));
        let mut state = self.state();
        state.logins += 1;
        let (code, redirect) = (format!("code-{}", state.logins), of("redirect_uri"));
        let login = Login {
            user: state.user.clone(),
            nonce: of("nonce"),
            challenge: of("code_challenge"),
            redirect: redirect.clone(),
        };
        state.codes.insert(code.clone(), login);
        let answer = Serializer::new(String::new())
            .append_pair("code", &code)
            .append_pair("state", &of("state"))
            .append_pair("iss", &self.issuer)
            .finish();
        format!("{redirect}?{answer}")
    }

    fn token(&self, authorization: &str, body: &[u8]) -> Result<String, &'static str> {
        let pairs: BTreeMap<String, String> = parse(body).into_owned().collect();
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let expected = STANDARD.encode(format!("{}:{}", encoded(CLIENT_ID), encoded(CLIENT_SECRET)));
        let mut state = self.state();
        state.asked += 1;
        if authorization != format!("Basic {expected}") || state.fault == Fault::Client {
            return Err("invalid_client");
        }
        let of = |name: &str| pairs.get(name).map_or("", String::as_str);
        // A code is good once.
        let login = state.codes.remove(of("code")).ok_or("invalid_grant")?;
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, of("code_verifier").as_bytes()));
        if challenge != login.challenge || of("redirect_uri") != login.redirect {
            return Err("invalid_grant");
        }
        let token = state.id_token(&self.issuer, &login);
        Ok(object(&[("access_token", "unused"), ("token_type", "Bearer"), ("id_token", &token)]))
    }
}

impl State {
    fn id_token(&self, issuer: &str, login: &Login) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is = |fault: Fault| self.fault == fault;
        let (issued, until) = match is(Fault::Expired) {
            true => (now - 7_200, now - 6_900),
            false => (now, now + 300),
        };
        let texts = object(&[
            ("iss", if is(Fault::Issuer) { "https://other.example" } else { issuer }),
            ("aud", if is(Fault::Audience) { "another" } else { CLIENT_ID }),
            ("sub", &format!("id of {}", login.user)),
            ("preferred_username", &login.user),
            ("nonce", if is(Fault::Nonce) { "another" } else { &login.nonce }),
        ]);
        let claims = format!("{}, \"iat\": {issued}, \"exp\": {until} }}", texts.trim_end_matches(" }"));
        let header = match is(Fault::Unsigned) {
            true => object(&[("alg", "none")]),
            false => object(&[("alg", "ES256"), ("kid", self.key.id)]),
        };
        let encoded = |part: &str| URL_SAFE_NO_PAD.encode(part);
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = match self.fault {
            Fault::Unsigned => String::new(),
            Fault::Signature => self.other_key.sign(&message),
            _ => self.key.sign(&message),
        };
        format!("{message}.{signature}")
    }
}
