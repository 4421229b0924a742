//! A stand-in for the backends that an operator has.

use std::cell::RefCell;

/// Backends that are as sure that they fit as they are said to be, and give one answer.
#[derive(Debug)]
pub struct Fixed<Request, Answer> {
    /// Their names, and how sure each is: 0 to 100.
    pub sure: Vec<(&'static str, u8)>,
    /// What each of them answers.
    pub answer: Answer,
    /// Who was asked, and for what.
    pub asked: RefCell<Vec<(String, Request)>>,
}

impl<Request: Clone, Answer: Clone> Fixed<Request, Answer> {
    /// Nobody has been asked yet.
    pub fn new(sure: &[(&'static str, u8)], answer: Answer) -> Self {
        Self { sure: sure.to_vec(), answer, asked: RefCell::default() }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.sure.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    /// How sure one is; one that is not there is not at all.
    pub fn sureness(&self, name: &str) -> u8 {
        self.sure.iter().find(|(known, _)| *known == name).map_or(0, |(_, sure)| *sure)
    }

    /// Asks one.
    pub fn ask(&self, name: &str, request: &Request) -> Answer {
        self.asked.borrow_mut().push((name.to_owned(), request.clone()));
        self.answer.clone()
    }
}
