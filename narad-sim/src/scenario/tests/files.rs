//! Files: what is read, what is refused and how that is said.

use super::*;
