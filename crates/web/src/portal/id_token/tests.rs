//! Tokens of RFC 7515, Appendix A, and tokens that say something else than they should.

use serde_json::json;

use super::*;

/// RFC 7515, A.2.1: a signature by RS256, and its key.
const RS256: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
/// RFC 7515, A.3.1: a signature by ES256, and its key.
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const EC_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const EC_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
/// RFC 8037, A.4: a signature by EdDSA of something that is no JSON, and its key.
const EDDSA: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
const ED_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn keys(keys: Value) -> Keys {
    Keys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn published() -> Keys {
    keys(json!([
        { "kty": "something new" },
        { "kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "RS256" },
        { "kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_Y },
        { "kty": "OKP", "crv": "Ed25519", "x": ED_X },
    ]))
}

#[test]
fn signatures_of_the_standards_are_good() {
    for token in [RS256, ES256] {
        assert_eq!(published().signed(token).unwrap()["iss"], "joe");
    }
    // The signature is good, and what it signs is no set of claims.
    assert_eq!(published().signed(EDDSA), Err(TokenError::Form("the claims")));
}

#[test]
fn a_damaged_key_does_not_hide_the_others() {
    let damaged = json!({ "kty": "EC", "crv": "P-256" });
    let right = json!({ "kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_Y });
    for set in [json!([damaged, right]), json!([right, damaged])] {
        assert_eq!(keys(set).signed(ES256).unwrap()["iss"], "joe");
    }
    assert_eq!(
        keys(json!([damaged])).signed(ES256),
        Err(TokenError::Form("a key of the provider lacks a part"))
    );
}

#[test]
fn anything_else_is_no_signature() {
    let keys = published();
    for token in [RS256, ES256, EDDSA] {
        let (message, signature) = token.rsplit_once('.').unwrap();
        for at in [0, signature.len() / 2] {
            let mut changed = signature.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = format!("{message}.{}", String::from_utf8(changed).unwrap());
            assert_eq!(keys.signed(&changed), Err(TokenError::Signature), "{changed}");
        }
        let (header, payload) = message.split_once('.').unwrap();
        let other = format!("{header}.{}.{signature}", payload.replacen('e', "f", 1).replacen('R', "S", 1));
        assert!(keys.signed(&other).is_err(), "{other}");
        assert_eq!(keys.signed(&format!("{message}.")), Err(TokenError::Signature));
    }
    let header = |header: Value| format!("{}.e30.e30", URL_SAFE_NO_PAD.encode(header.to_string()));
    for alg in ["none", "None", "", "HS256", "RS1", "ES512"] {
        let found = keys.signed(&header(json!({ "alg": alg })));
        assert_eq!(found, Err(TokenError::Algorithm(alg.to_owned())));
    }
    let critical = keys.signed(&header(json!({ "alg": "ES256", "crit": ["b64"] })));
    assert!(matches!(critical, Err(TokenError::Form(_))));
    for text in ["", ".", "..", "a.b.c", "e30.e30.e30", &format!("{RS256}.x")] {
        assert!(keys.signed(text).is_err(), "{text}");
    }
}

#[test]
fn a_key_signs_as_it_is_published_for() {
    let rsa = |more: Value| {
        let mut key = json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB" });
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keys(json!([key])).signed(RS256)
    };
    assert!(rsa(json!({})).is_ok() && rsa(json!({ "kid": "a", "use": "sig" })).is_ok());
    for other in [json!({ "alg": "RS512" }), json!({ "use": "enc" }), json!({ "kty": "EC" })] {
        assert_eq!(rsa(other), Err(TokenError::Key("none".to_owned())));
    }
    assert!(matches!(rsa(json!({ "n": "%" })), Err(TokenError::Form(_))));
    // A key with another name is not tried.
    let named = RS256.replacen(
        "eyJhbGciOiJSUzI1NiJ9",
        &URL_SAFE_NO_PAD.encode("{\"alg\":\"RS256\",\"kid\":\"b\"}"),
        1,
    );
    let found = keys(json!([{ "kty": "RSA", "n": RSA_N, "e": "AQAB", "kid": "a" }])).signed(&named);
    assert_eq!(found, Err(TokenError::Key("b".to_owned())));
}

#[test]
fn claims_are_for_this_login_at_this_portal_now() {
    let good = json!({ "iss": "https://id", "aud": "portal", "nonce": "n", "iat": 1000, "exp": 1300 });
    let check = |change: Value, now: i64| {
        let mut claims = good.as_object().unwrap().clone();
        claims.extend(change.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        let expected = Expected { issuer: "https://id", client_id: "portal", nonce: "n", now: Time(now) };
        check_claims(&claims, &expected)
    };
    for (change, now) in [
        (json!({}), 1000),
        (json!({}), 1359),
        (json!({}), 940),
        (json!({ "aud": ["portal"] }), 1000),
        (json!({ "aud": ["portal", "other"], "azp": "portal" }), 1000),
        (json!({ "exp": 1300.5, "nbf": 1000 }), 1000),
    ] {
        assert_eq!(check(change.clone(), now), Ok(()), "{change} at {now}");
    }
    for (claim, change, now) in [
        ("iss", json!({ "iss": "https://id/" }), 1000),
        ("iss", json!({ "iss": null }), 1000),
        ("iss", json!({ "iss": ["https://id"] }), 1000),
        ("aud", json!({ "aud": "other" }), 1000),
        ("aud", json!({ "aud": null }), 1000),
        ("aud", json!({ "aud": [] }), 1000),
        ("aud", json!({ "aud": { "portal": true } }), 1000),
        ("azp", json!({ "aud": ["portal", "other"] }), 1000),
        ("azp", json!({ "azp": "other" }), 1000),
        ("nonce", json!({ "nonce": "m" }), 1000),
        ("nonce", json!({ "nonce": null }), 1000),
        ("exp", json!({}), 1360),
        ("exp", json!({ "exp": null }), 1000),
        ("exp", json!({ "exp": "1300" }), 1000),
        ("exp", json!({ "exp": i64::MIN }), 1000),
        ("iat", json!({}), 939),
        ("iat", json!({ "iat": null }), 1000),
        ("iat", json!({ "iat": i64::MAX }), 1000),
        ("nbf", json!({ "nbf": 1100 }), 1000),
    ] {
        match check(change.clone(), now) {
            Err(TokenError::Claim { claim: found, .. }) => assert_eq!(found, claim, "{change} at {now}"),
            other => panic!("{change} at {now}: {other:?}"),
        }
    }
}
