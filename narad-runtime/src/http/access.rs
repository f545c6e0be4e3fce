//! Who may do what: the role that each route needs, and what tells who is asking.
//!
//! Whoever asks is known by a bearer token, by a client certificate that the listener has checked
//! ([`Peer`]), or not at all. While no token is configured, an unencrypted listener serves everybody
//! as an admin: it is bound to the loopback interface unless an operator insists. Everywhere else
//! whoever is not known gets the probes, the page without its data, and 401.
//!
//! Only hashes of tokens are kept, and they are compared in a time that does not depend on where they
//! differ. A token is 32 random bytes ([`Secret::draw`]), so that its hash needs no salt and no
//! stretching.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use super::audit::reading::Readable;
use super::audit::{Audit, Named, What};
use super::error::ApiError;
use super::role::{Peer, Role};

/// A bearer token as clients have it. What shows it in a log shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Why a text is no [`Secret`]; the text itself is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 1 to 512 letters, digits and any of - . _ ~ + / = without spaces")]
pub struct SecretError;

impl Secret {
    /// Longest token, in bytes.
    pub const LENGTH_MAX: usize = 512;
    /// What drawn tokens begin with, so that one that has leaked can be found by what it is.
    const PREFIX: &str = "narad_";

    /// Draws a token from the system's entropy: 256 bits.
    ///
    /// # Panics
    ///
    /// If the system has none, which it always has.
    #[must_use]
    pub fn draw() -> Self {
        let mut bytes = [0; 32];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        assert_eq!(filled, Ok(bytes.len()), "the kernel gives 32 random bytes");
        Self(format!("{}{}", Self::PREFIX, URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    /// Takes a token as it stands in a header, a variable or a file.
    ///
    /// # Errors
    ///
    /// If no header could carry it.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !(1..=Self::LENGTH_MAX).contains(&text.len()) || !text.bytes().all(allowed) {
            return Err(SecretError);
        }
        Ok(Self(text.into()))
    }

    /// Returns the token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns what nodes keep of it.
    pub fn sha256(&self) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        Hash(hash)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl std::str::FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        Self::new(text)
    }
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        // `from_str_radix` takes a sign.
        text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(Self(hash))
    }

    /// Compares in a time that does not depend on where the two differ.
    fn is(&self, other: &Self) -> bool {
        let differs = self.0.iter().zip(&other.0).fold(0, |seen, (one, two)| seen | (one ^ two));
        std::hint::black_box(differs) == 0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A token as nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose it is, as the audit log says it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// What the token is recognized by.
    pub sha256: Hash,
}

impl Token {
    /// Most tokens that a node takes.
    pub const COUNT_MAX: usize = 1024;
    /// Longest name, in bytes.
    pub const NAME_LENGTH_MAX: usize = 64;

    /// Checks what no single token can break.
    ///
    /// # Errors
    ///
    /// What is wrong, in words that follow "must be".
    pub fn check_all(tokens: &[Self]) -> Result<(), String> {
        if tokens.len() > Self::COUNT_MAX {
            return Err(format!("at most {} tokens", Self::COUNT_MAX));
        }
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for token in tokens {
            let name = token.name.as_str();
            let is_name = (1..=Self::NAME_LENGTH_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_name {
                return Err(format!(
                    "tokens with names of 1 to {} visible ASCII characters, not {name:?}",
                    Self::NAME_LENGTH_MAX
                ));
            }
            if !names.insert(name) {
                return Err(format!("tokens of different names, and {name:?} is there twice"));
            }
            if !hashes.insert(token.sha256) {
                return Err(format!("different tokens, and that of {name:?} is there twice"));
            }
        }
        Ok(())
    }
}

/// Who may use the API of a node. What it says can be replaced while the node runs.
#[derive(Debug, Default)]
pub struct Access {
    tokens: RwLock<Arc<[Token]>>,
    audit: Option<Arc<Audit>>,
}

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// The name of the token or of the certificate; `None` for whoever is not known.
    pub(super) name: Option<String>,
    /// By what it is known.
    pub(super) by: &'static str,
    pub(super) role: Option<Role>,
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// The token is not known, or no token at all.
    BadToken,
}

tokio::task_local! {
    /// The token of the request that is being answered.
    static PRESENTED: Option<Secret>;
}

/// Returns the token of the request that this task is answering, for a [`Service`](crate::service::Service)
/// that has to ask other nodes for it: they are asked in its name.
pub fn presented() -> Option<Secret> {
    PRESENTED.try_with(Clone::clone).ok().flatten()
}

impl Access {
    /// Takes these tokens.
    #[must_use]
    pub fn new(tokens: Vec<Token>) -> Self {
        Self { tokens: RwLock::new(tokens.into()), audit: None }
    }

    /// Writes down what admins do.
    #[must_use]
    pub fn audited(mut self, audit: Arc<Audit>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Takes these tokens from now on and no others; requests that were let in go on.
    pub fn replace(&self, tokens: Vec<Token>) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
    }

    /// Whether somebody has a token here.
    #[cfg(feature = "cli")]
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens().is_empty()
    }

    /// Ends the audit log, if there is one: what is left of it is written. Blocks.
    pub fn close(&self) {
        if let Some(audit) = &self.audit {
            audit.close();
        }
    }

    fn tokens(&self) -> Arc<[Token]> {
        Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells who is asking, and the token if there is one.
    fn caller(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<(Caller, Option<Secret>), Stranger> {
        let tokens = self.tokens();
        let is_open = tokens.is_empty() && !peer.encrypted;
        let certified = Caller {
            name: peer.certificate.clone(),
            by: "certificate",
            role: peer.role.max(is_open.then_some(Role::Admin)),
        };
        if is_open || !headers.contains_key(header::AUTHORIZATION) {
            if certified.name.is_some() || peer.role.is_some() {
                return Ok((certified, None));
            }
            let role = is_open.then_some(Role::Admin);
            return Ok((Caller { name: None, by: "nothing", role }, None));
        }
        let secret = bearer(headers).ok_or(Stranger::BadToken)?;
        let hash = secret.sha256();
        // All are compared, whichever it is.
        let found = tokens
            .iter()
            .fold(None, |found, token| if token.sha256.is(&hash) { Some(token) } else { found });
        let token = found.ok_or(Stranger::BadToken)?;
        let role = Some(token.role).max(peer.role);
        let name = Some(token.name.clone());
        Ok((Caller { name, by: "token", role }, Some(secret)))
    }
}

/// Reads `Authorization: Bearer TOKEN`, which has to be there once.
fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))?.parse().ok()
}

/// Returns the least role that a request needs; `None` where nobody has to be known.
///
/// What is not named here changes the cluster unless it is a read: a route that is added and forgotten
/// here is one for admins.
pub fn least_role(path: &str, method: &Method, uri: &Uri) -> Option<Role> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match path {
        // Probes have no token, and a page is nothing without its data.
        "/" | "/page.css" | "/page.js" | "/healthz" | "/readyz" => None,
        // Records that are handed out are kept from others.
        "/v1/topics/{topic}/messages" if is_read => {
            let plain = uri
                .query()
                .unwrap_or_default()
                .split('&')
                .any(|pair| pair.split('=').next() == Some("from"));
            Some(if plain { Role::Read } else { Role::Write })
        }
        "/v1/topics/{topic}/messages"
        | "/v1/topics/{topic}/ack"
        | "/v1/topics/{topic}/nack"
        | "/v1/topics/{topic}/extend"
        | "/v1/topics/{topic}/skip" => Some(Role::Write),
        // Who did what is nobody else's business.
        "/v1/node/audit" => Some(Role::Admin),
        _ if is_read => Some(Role::Read),
        _ => Some(Role::Admin),
    }
}

/// What [`admit`] goes by.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) path: &'static str,
    pub(super) access: Arc<Access>,
}

/// Lets a request pass that may do what it asks for.
pub(super) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let Some(least) = least_role(gate.path, request.method(), request.uri()) else {
        return next.run(request).await;
    };
    let peer = Peer::of(request.extensions());
    let known = gate.access.caller(request.headers(), &peer);
    let (caller, secret, judged) = match known {
        Ok((caller, secret)) => {
            let judged = judge(&caller, least, &peer, &request);
            (caller, secret, judged)
        }
        Err(Stranger::BadToken) => {
            let caller = Caller { name: None, by: "an unknown token", role: None };
            (caller, None, Err(ApiError::bad_token()))
        }
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let audit = gate.access.audit.as_ref().filter(|_| least == Role::Admin && !is_read);
    if least == Role::Admin && is_read {
        request.extensions_mut().insert(Readable(gate.access.audit.clone()));
    }
    let docket = audit.map(|audit| audit.begin(caller, &peer, what(&request)));
    let response = match judged {
        Ok(()) => {
            if let Some(docket) = &docket {
                if !has_body(&request) {
                    docket.asked(None).await;
                }
                request.extensions_mut().insert(docket.clone());
            }
            PRESENTED.scope(secret, next.run(request)).await
        }
        Err(refusal) => refusal.into_response(),
    };
    if let Some(docket) = docket {
        docket.answered(response.status(), response.extensions().get::<Named>());
    }
    response
}

fn what(request: &Request) -> What {
    let uri = request.uri();
    What {
        method: request.method().clone(),
        path: uri.path().to_owned(),
        query: uri.query().map(str::to_owned),
    }
}

/// Whether there is a body to wait for before it is known what is asked.
fn has_body(request: &Request) -> bool {
    !axum::body::HttpBody::is_end_stream(request.body())
}

/// Says whether somebody may do something.
fn judge(caller: &Caller, least: Role, peer: &Peer, request: &Request) -> Result<(), ApiError> {
    if caller.role.is_some_and(|role| role >= least) {
        return foreign(caller, least, peer, request.headers())
            .map_or(Ok(()), |error| Err(ApiError::forbidden(error)));
    }
    if caller.name.is_none() && caller.role.is_none() {
        return Err(ApiError::unauthenticated(least));
    }
    let (name, has) = (caller.name.as_deref().unwrap_or("whoever asks"), caller.role);
    let has = has.map_or("no role", Role::name);
    let error = format!("this takes the role {least}, and {name} has {has}: use another token");
    Err(ApiError::forbidden(error))
}

/// Finds out whether a page of another origin asks through the browser of somebody who may do more than
/// it. A browser shows its user's certificate to whoever asks for a page's sake, and may well run where
/// nobody needs a token; a token is nothing that it adds by itself.
fn foreign(caller: &Caller, least: Role, peer: &Peer, headers: &HeaderMap) -> Option<&'static str> {
    if caller.by == "token" {
        return None;
    }
    let mut hosts = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let host = hosts.next();
    // Who owns a domain says which address it has, and its pages are then of the node's own origin.
    let is_near = caller.by == "nothing" && peer.address.is_some_and(|from| from.is_loopback());
    if is_near && (host.is_some_and(is_domain) || hosts.next().is_some()) {
        return Some(
            "this node serves its own machine without a token, but not under a domain's name, which \
             pages of others may have: ask for it by its address, or have tokens",
        );
    }
    let is_foreign = if let Some(site) = headers.get("sec-fetch-site") {
        site == "cross-site" || site == "same-site"
    } else {
        // Browsers do not say it of a node that has no TLS and is on another machine.
        let mut origins = headers.get_all(header::ORIGIN).iter().map(HeaderValue::as_bytes);
        !origins.all(|origin| is_at(origin, host))
    };
    (is_foreign && least > Role::Read)
        .then_some("a page of another origin may not change anything here")
}

/// Whether an origin, such as `https://narad-1:7401`, is the host that was asked.
fn is_at(origin: &[u8], host: Option<&[u8]>) -> bool {
    let schemes: [&[u8]; 2] = [b"https://", b"http://"];
    let at = schemes.into_iter().find_map(|scheme| origin.strip_prefix(scheme));
    at.zip(host).is_some_and(|(at, host)| at.eq_ignore_ascii_case(host))
}

/// Whether a `Host` is a name that somebody can have bought: neither an address nor a machine's own name.
fn is_domain(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return true };
    if host.starts_with('[') {
        return false;
    }
    let name = host.split(':').next().unwrap_or(host);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let is_own = name.to_ascii_lowercase().ends_with(".localhost");
    name.contains('.') && !is_address && !is_own
}

#[cfg(test)]
mod tests;
