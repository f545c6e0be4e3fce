//! Tokens as they stand in the file.

use crate::http::{Hash, Token};

/// What a list of tokens looks like.
const EXAMPLE: &str = "a list such as [{name = \"ops\", role = \"admin\", sha256 = \"64 hex digits\"}], as \
                       narad token new prints it";

/// Reads a list of tokens; says what is allowed otherwise.
pub(super) fn read(value: &toml::Value) -> Result<Vec<Token>, String> {
    let list = value.as_array().ok_or(EXAMPLE)?;
    let tokens: Vec<Token> = list.iter().map(one).collect::<Result<_, String>>()?;
    Token::check_all(&tokens)?;
    Ok(tokens)
}

/// Reads the same from a text, such as a variable.
pub(super) fn read_text(text: &str) -> Result<Vec<Token>, String> {
    let table: toml::Table = format!("tokens = {text}").parse().map_err(|_| EXAMPLE)?;
    // A line more would be a key more, which nobody has asked for.
    match (table.get("tokens"), table.len()) {
        (Some(value), 1) => read(value),
        _ => Err(EXAMPLE.into()),
    }
}

/// Writes them as they stand in the file.
pub(super) fn show(tokens: &[Token]) -> String {
    let one = |token: &Token| {
        let Token { name, role, sha256 } = token;
        let name = toml::Value::String(name.clone());
        format!("{{name = {name}, role = \"{role}\", sha256 = \"{sha256}\"}}")
    };
    format!("[{}]", tokens.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn one(value: &toml::Value) -> Result<Token, String> {
    let table = value.as_table().ok_or(EXAMPLE)?;
    if let Some(unknown) =
        table.keys().find(|key| !["name", "role", "sha256"].contains(&key.as_str()))
    {
        return Err(format!("a list of tokens that have name, role and sha256, not {unknown}"));
    }
    let text = |key: &str| {
        let value = table.get(key).and_then(toml::Value::as_str);
        value.ok_or_else(|| format!("a list of tokens that each have a {key} in quotes"))
    };
    let name = text("name")?.to_owned();
    let role =
        text("role")?.parse().map_err(|error| format!("tokens with a known role: {error}"))?;
    let sha256 = Hash::parse(text("sha256")?).ok_or_else(|| {
        format!(
            "tokens with a sha256 of 64 hex digits, as narad token new prints it, also {name:?}"
        )
    })?;
    Ok(Token { name, role, sha256 })
}
