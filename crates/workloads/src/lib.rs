//! What Plimsoll drives: disk, copy, command, null.
