//! A fake for the backends that an operator has.

use std::cell::RefCell;

/// Backends with fixed results of `detect`, which all return the same report.
#[derive(Debug)]
pub struct Fixed<Request, Answer> {
    /// The names of the backends, each with its result of `detect`: 0 to 100.
    pub sure: Vec<(&'static str, u8)>,
    /// The result of every request.
    pub answer: Answer,
    /// The names and requests received so far.
    pub asked: RefCell<Vec<(String, Request)>>,
}

impl<Request: Clone, Answer: Clone> Fixed<Request, Answer> {
    /// Makes backends that have received no requests yet.
    pub fn new(sure: &[(&'static str, u8)], answer: Answer) -> Self {
        Self { sure: sure.to_vec(), answer, asked: RefCell::default() }
    }

    /// The names of all backends.
    pub fn names(&self) -> Vec<String> {
        self.sure.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    /// The result of `detect` for a name; 0 if there is no such backend.
    pub fn sureness(&self, name: &str) -> u8 {
        self.sure.iter().find(|(known, _)| *known == name).map_or(0, |(_, sure)| *sure)
    }

    /// Records a request; returns the fixed result.
    pub fn ask(&self, name: &str, request: &Request) -> Answer {
        self.asked.borrow_mut().push((name.to_owned(), request.clone()));
        self.answer.clone()
    }
}
