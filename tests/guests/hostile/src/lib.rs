//! A plugin that tries what it must not do.
