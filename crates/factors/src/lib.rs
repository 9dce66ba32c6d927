//! What Plimsoll turns, and how it is undone.
