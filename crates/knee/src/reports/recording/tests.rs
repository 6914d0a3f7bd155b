//! Views of a recording made by hand.
