//! Who is known, and what for.

use super::*;

fn token(name: &str, role: Role) -> (Secret, Token) {
    let secret = Secret::draw();
    let sha256 = secret.sha256();
    (secret, Token { name: name.into(), role, sha256 })
}

fn headers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
}

/// The vector of FIPS 180-2 for "abc": what any other program makes of a token.
#[test]
fn a_token_is_known_by_its_sha256() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Secret::new("abc").unwrap().sha256().to_string(), hash);
    assert_eq!(Hash::parse(hash).unwrap(), Secret::new("abc").unwrap().sha256());
    for bad in ["", "ba78", &format!("+{}", &hash[1..]), &hash.replace('b', "g")] {
        assert_eq!(Hash::parse(bad), None, "{bad}");
    }
    let (one, other) = (Secret::draw(), Secret::draw());
    assert!(one != other && one.reveal().starts_with("narad_") && one.reveal().len() == 49);
    assert!(!format!("{one:?}").contains(&one.reveal()[6..]));
}

#[test]
fn nobody_has_to_be_known_while_no_token_is_configured_and_nothing_is_encrypted() {
    let access = Access::default();
    for headers in [HeaderMap::new(), headers("Bearer whatever")] {
        let (caller, _) = access.caller(&headers, &Peer::default()).unwrap();
        assert_eq!((caller.role, caller.name), (Some(Role::Admin), None));
    }
    let encrypted = Peer { encrypted: true, ..Peer::default() };
    assert_eq!(access.caller(&HeaderMap::new(), &encrypted).unwrap().0.role, None);
    let refused = access.caller(&headers("Bearer whatever"), &encrypted);
    assert_eq!(refused, Err(Stranger::BadToken));
}

#[test]
fn a_token_gives_its_role_until_it_is_replaced() {
    let (secret, known) = token("ops", Role::Write);
    let access = Access::new(vec![token("other", Role::Admin).1, known]);
    let good = headers(&format!("bearer {}", secret.reveal()));
    let (caller, presented) = access.caller(&good, &Peer::default()).unwrap();
    assert_eq!((caller.name.as_deref(), caller.role), (Some("ops"), Some(Role::Write)));
    assert_eq!(presented, Some(secret));
    let nobody = access.caller(&HeaderMap::new(), &Peer::default()).unwrap().0;
    assert_eq!((nobody.name, nobody.role), (None, None));
    let mut twice = good.clone();
    twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    let long = headers(&format!("Bearer {}", "x".repeat(513)));
    for bad in [twice, long, headers("Basic b3BzOng="), headers("Bearer"), headers("Bearer a b")] {
        assert_eq!(access.caller(&bad, &Peer::default()), Err(Stranger::BadToken), "{bad:?}");
    }
    access.replace(vec![token("new", Role::Admin).1]);
    assert_eq!(access.caller(&good, &Peer::default()), Err(Stranger::BadToken));
}

#[test]
fn a_certificate_gives_its_role_and_a_token_can_only_add() {
    let (secret, known) = token("ops", Role::Write);
    let access = Access::new(vec![known]);
    let peer = |role| Peer {
        encrypted: true,
        certificate: Some("seat".into()),
        role: Some(role),
        ..Peer::default()
    };
    let (caller, _) = access.caller(&HeaderMap::new(), &peer(Role::Admin)).unwrap();
    assert_eq!((caller.name.as_deref(), caller.role), (Some("seat"), Some(Role::Admin)));
    let with = headers(&format!("Bearer {}", secret.reveal()));
    assert_eq!(access.caller(&with, &peer(Role::Admin)).unwrap().0.role, Some(Role::Admin));
    assert_eq!(access.caller(&with, &peer(Role::Read)).unwrap().0.role, Some(Role::Write));
}

#[test]
fn what_is_not_named_is_for_admins_unless_it_is_a_read() {
    let need = |path, method: &Method, uri: &str| least_role(path, method, &uri.parse().unwrap());
    let messages = "/v1/topics/{topic}/messages";
    assert_eq!(need("/healthz", &Method::GET, "/healthz"), None);
    assert_eq!(need("/metrics", &Method::GET, "/metrics"), Some(Role::Read));
    assert_eq!(need("/v1/new", &Method::GET, "/"), Some(Role::Read));
    assert_eq!(need("/v1/new", &Method::HEAD, "/"), Some(Role::Read));
    assert_eq!(need("/v1/new", &Method::POST, "/"), Some(Role::Admin));
    assert_eq!(need("/v1/node/audit", &Method::GET, "/"), Some(Role::Admin));
    assert_eq!(need("/v1/topics", &Method::POST, "/"), Some(Role::Admin));
    assert_eq!(need(messages, &Method::POST, "/"), Some(Role::Write));
    assert_eq!(need(messages, &Method::GET, "/?max=1"), Some(Role::Write));
    assert_eq!(need(messages, &Method::GET, "/?partition=1&from=0"), Some(Role::Read));
    assert_eq!(need(messages, &Method::GET, "/?notfrom=0&max=from"), Some(Role::Write));
}

#[test]
fn tokens_have_names_of_their_own() {
    let (_, one) = token("ops", Role::Read);
    let named = |name: &str| Token { name: name.into(), ..token("", Role::Read).1 };
    assert_eq!(Token::check_all(&[one.clone(), named("b")]), Ok(()));
    let twice = Token { name: "b".into(), ..one.clone() };
    for bad in [named("ops"), named(""), named("a b"), named(&"x".repeat(65)), twice] {
        assert!(Token::check_all(&[one.clone(), bad.clone()]).is_err(), "{bad:?}");
    }
}
