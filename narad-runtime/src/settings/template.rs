//! The commented default.

use std::fmt::Write as _;

use super::read::variable;
use super::{Settings, keys};

/// Returns a configuration file that has every key with its meaning and default, commented out.
///
/// # Examples
///
/// It is a configuration itself, and changes nothing:
///
/// ```
/// use std::path::Path;
/// use narad_runtime::settings::{Layers, Settings, commented_default};
///
/// let layers = Layers::default().with_text(Path::new("n.toml"), &commented_default())?;
/// assert_eq!(layers.settings()?, Settings::default());
/// # Ok::<(), narad_runtime::settings::SettingsError>(())
/// ```
#[must_use]
pub fn commented_default() -> String {
    let mut text = String::from(
        "# Configuration of a Narad node. Every line that is commented out shows the default.\n\
         # A flag wins over the environment, the environment over this file.\n\
         # SIGHUP has it read again: auth.tokens and logging.filter count at once, [policy] once the\n\
         # cluster has agreed, and the node logs which other changes wait for a restart.\n",
    );
    let mut settings = Settings::default();
    let mut section = "";
    for key in keys() {
        let (place, name) = key.path.split_once('.').unwrap_or(("", key.path));
        if place != section {
            section = place;
            // Writing into a string cannot fail.
            let _ = write!(text, "\n[{section}]\n");
        }
        // What has no default is shown by an example.
        let example = || match key.path {
            "name" => "\"narad-1\"".to_owned(),
            "tls.dir" => "\"narad-certs\"".to_owned(),
            "tls.ca" => "\"ca.crt\"".to_owned(),
            "tls.cert" => "\"narad-1.crt\"".to_owned(),
            "tls.key" => "\"narad-1.key\"".to_owned(),
            _ => format!("\"192.0.2.1:{}\"", key.port()),
        };
        let value = key.show(&mut settings).unwrap_or_else(example);
        let _ = write!(text, "\n# {} ({})\n# {name} = {value}\n", key.doc, variable(key.path));
    }
    text
}
