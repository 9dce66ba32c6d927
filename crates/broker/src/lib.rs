//! A small XML application broker and a portal in front of it: a system under test for examples and tests.
//!
//! The broker answers which applications a user may start: it checks credentials and groups in an LDAP directory, and
//! searches the list of applications in a cache that is filled from PostgreSQL. The portal asks several brokers. Both have
//! a fixed pool of worker threads, as the systems of the published measurements had.
#![forbid(unsafe_code)]

pub mod client;
pub mod cpu;
pub mod flags;
pub mod service;
pub mod xml;
