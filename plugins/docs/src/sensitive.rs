//! Rejects text with keys and credentials, so that they are not sent to the service.

use cofferdam_sdk::ToolError;

/// The prefixes of well-known services' keys.
const KEY_PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "ctx7sk",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "pypi-",
    "rk_live_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "xoxb-",
    "xoxp-",
    "xapp-",
];

/// The minimum length of such a key, in bytes.
const MIN_KEY_BYTES: usize = 16;

/// The minimum length of a word that counts as a key if it mixes letters and digits, in bytes.
const MIN_RANDOM_BYTES: usize = 32;

/// The minimum length of a value that counts as a password, in bytes.
const MIN_PASSWORD_BYTES: usize = 6;

/// Names of values that are secret.
const SECRET_NAMES: &[&str] =
    &["password", "passwd", "secret", "token", "apikey", "accesskey", "privatekey", "credential"];

/// Checks that a text contains nothing that looks like a key or a password.
///
/// # Errors
/// `SensitiveData`. The message does not contain the secret.
pub fn check(argument: &str, text: &str) -> Result<(), ToolError> {
    let Some(what) = found(text) else { return Ok(()) };
    Err(ToolError::denied(
        "SensitiveData",
        format!("'{argument}' holds what looks like {what}; ask without it, nothing was sent"),
    ))
}

fn found(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") {
        return Some("a private key or a certificate");
    }
    let words = || text.split(|c: char| c.is_whitespace() || "\"'`,;()<>{}[]".contains(c));
    for word in words() {
        // The value of an assignment; a key may itself end in `=`.
        let name = word.trim_end_matches('=').rfind(['=', ':']);
        let word = &word[name.map_or(0, |at| at + 1)..];
        if word.len() >= MIN_KEY_BYTES
            && KEY_PREFIXES.iter().any(|key| word.starts_with(key))
            && has_digit(word)
        {
            return Some("a key");
        }
        if word.len() >= MIN_RANDOM_BYTES && is_random(word) {
            return Some("a key");
        }
    }
    if words().any(has_password) {
        return Some("a URL with a password");
    }
    assigned(text).then_some("a password or a key")
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
}

/// Whether a word mixes upper case, lower case and digits as no name does.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let is_text = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b));
    let is_hex = word.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = count(u8::is_ascii_digit);
    is_text
        && digits >= 4
        && (is_hex || (count(u8::is_ascii_lowercase) >= 4 && count(u8::is_ascii_uppercase) >= 4))
}

/// Whether a word is a URL with a password: `https://user:word@host`.
fn has_password(word: &str) -> bool {
    let Some((_, rest)) = word.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    authority.split_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Whether the text assigns a secret: `password = something`, `"api_key": "something"`,
/// `Authorization: Bearer something`.
fn assigned(text: &str) -> bool {
    let mut from = 0;
    while let Some(at) = text[from..].find([':', '=']).map(|at| from + at) {
        let name: String = text[..at]
            .trim_end_matches([' ', '"', '\''])
            .chars()
            .rev()
            .take_while(|c| c.is_alphanumeric() || "_-".contains(*c))
            .filter(|c| c.is_alphanumeric())
            .collect();
        let name: String = name.chars().rev().collect::<String>().to_lowercase();
        let value = text[at + 1..].trim_start_matches([' ', '"', '\'', '=']);
        let value = value.strip_prefix("Bearer ").or(value.strip_prefix("Basic ")).unwrap_or(value);
        let value: &str =
            value.split(|c: char| c.is_whitespace() || "\"',;)".contains(c)).next().unwrap_or("");
        let value = value.trim_end_matches(['?', '.', ':', '!']);
        let is_secret =
            name == "authorization" || SECRET_NAMES.iter().any(|end| name.ends_with(end));
        // A name is not a value: password=settings.password, token=None.
        let is_value = value.len() >= MIN_PASSWORD_BYTES
            && (value.bytes().any(|b| b.is_ascii_digit())
                || value.bytes().any(|b| b"!#%^&*?".contains(&b)))
            && !value.contains(['(', '.', '$', '{']);
        if is_secret && is_value {
            return true;
        }
        from = at + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passwords_are_detected() {
        for text in [
            "why does sk-proj-abcdef0123456789abcd not work?",
            "client = Client(api_key=\"ghp_0123456789abcdefABCDEF\")",
            "AKIAIOSFODNN7EXAMPLE is refused",
            "decode eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123",
            "-----BEGIN RSA PRIVATE KEY----- how to load",
            "password = hunter2! fails",
            "{\"password\": \"hunter22\"}",
            "Authorization: Bearer abcdef123456",
            "connect to postgres://me:word@db.example/x",
            "use 4f3c2b1a4f3c2b1a4f3c2b1a4f3c2b1a",
            "key Zm9vYmFyQmF6MTIzNDU2Nzg5MEFCQ0RFRg==",
        ] {
            let error = check("query", text).err();
            assert_eq!(error.map(|error| error.code).as_deref(), Some("SensitiveData"), "{text}");
        }
    }

    #[test]
    fn questions_about_secrets_are_allowed() {
        for text in [
            "How to set timeout parameter in AsyncClient constructor?",
            "How to pass api_key=settings.api_key to the client?",
            "What does token: str mean in OAuth2PasswordBearer?",
            "How to use Authorization: Bearer tokens?",
            "password=None default in create_engine",
            "How do ghp_ tokens differ from github_pat_ ones?",
            "sk-learn RandomForestClassifier n_estimators",
            "https://docs.example/a@b:c",
            "test_that_a_very_long_function_name_is_not_a_secret_at_all",
            "AbstractSingletonProxyFactoryBeanConfigurationManager",
        ] {
            assert_eq!(check("query", text), Ok(()), "{text}");
        }
    }
}
