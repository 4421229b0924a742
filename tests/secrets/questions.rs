//! What the user is asked, and what an approval covers.

use cofferdam_core::outcome::Outcome;
use cofferdam_engine::call::Session;
use cofferdam_engine::host::RunOptions;
use serde_json::json;

use super::{OTHER, OWN, Post, SECRET, User, allowing, asking};
use crate::http::server::{Server, answer};
use crate::trial::failure;

#[test]
fn a_yes_is_for_one_call_and_one_origin() {
    let post = Post::new(SECRET);
    let user = User::new(true);
    let options = RunOptions { session: Session::default(), ..asking(&user) };
    let read = &["read", "config/prod.key"][..];
    assert_eq!(post.went(&options, &[read, &["send", OWN, "x"], &["send", OWN, "y"]])[2], "200");
    let asked = "it has read the secret 'deploy key' (config/prod.key), and would send to \
                 https://test.example";
    assert_eq!(user.asked(), [asked]);
    assert_eq!(post.server.asked().len(), 2);
    // Each call is asked about anew.
    post.went(&options, &[&["send", OWN, "x"]]);
    assert_eq!(user.asked(), [asked, asked]);
    post.went(&options, &[&["send", OWN, "x"], &["send", OTHER, "x"]]);
    assert_eq!(user.asked()[3], asked.replace("test.example", "other.example"));
}

#[test]
fn a_no_ends_the_call() {
    let post = Post::new(SECRET);
    let user = User::new(false);
    let steps: &[&[&str]] = &[&["read", "config/prod.key"], &["send", OWN, "x"]];
    let failure = failure(post.go(&asking(&user), steps));
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("Declined", "the person said no")
    );
    assert!(post.server.asked().is_empty());
    assert_eq!(user.asked().len(), 1);
}

#[test]
fn a_question_shows_the_call() {
    let post = Post::new(SECRET);
    let user = User::new(true);
    let steps: &[&[&str]] = &[&["read", "config/prod.key"], &["send", OWN, "x"]];
    post.went(&asking(&user), steps);
    let asked = user.asked.lock().unwrap();
    assert_eq!(
        (asked[0].tool.as_str(), &asked[0].args),
        ("courier.go", &json!({ "steps": steps }))
    );
    let flow = asked[0].flow.as_ref().unwrap();
    assert_eq!(flow.reads.first().unwrap().what, "config/prod.key");
    assert_eq!(flow.origins.first().unwrap().to_string(), "https://test.example");
}

#[test]
fn a_call_of_many_secrets_asks_a_bounded_number_of_times() {
    let post = Post::new("[secrets.all]\npaths = ['n/*']\n");
    let steps: Vec<Vec<String>> = (0..20)
        .flat_map(|number| {
            post.trial.place.write(&format!("n/{number}"), "x");
            [
                vec!["read".into(), format!("n/{number}")],
                vec!["send".into(), OWN.into(), "x".into()],
            ]
        })
        .collect();
    let user = User::new(true);
    let outcome = post.trial.call_with(&asking(&user), "courier.go", json!({ "steps": steps }));
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.code.as_str(), "SecretFlow", "{failure:?}");
    assert_eq!(user.asked().len(), 9);
}

#[test]
fn a_program_with_a_network_asks_before_it_starts() {
    let server = Server::new(|_| answer(200, "", b"hello"));
    let network = format!(
        "[[grants.courier.network]]\nprograms = ['python3']\norigins = [{{ origin = \
         'https://test.example', address = '{}', ca-file = '{}' }}]\n",
        server.address(),
        server.authority().display()
    );
    let script = "import urllib.request\n\
                  print(urllib.request.urlopen('https://test.example/a').status)\n";
    let steps: &[&[&str]] = &[&["run", "python3", "-c", script]];
    let other = SECRET.to_owned();
    let post = Post::with(server, &format!("{network}{other}"));
    let message = post.refused(steps);
    let wanted = "its program `python3` can know the secret 'deploy key' (the program `python3` could \
                  read it), and can send to https://test.example";
    assert!(message.contains(wanted), "{message}");
    let user = User::new(true);
    assert_eq!(post.went(&asking(&user), steps), ["200\n"]);
    assert_eq!(user.asked(), [wanted]);
    // Without origins, nothing is asked.
    let cat: &[&[&str]] = &[&["run", "cat", "notes.txt"]];
    assert_eq!(post.went(&RunOptions::default(), cat), ["no secret"]);
    let server = Server::new(|_| answer(200, "", b"hello"));
    let network =
        network.replace(&post.server.address().to_string(), &server.address().to_string());
    let network = network.replace(
        &post.server.authority().display().to_string(),
        &server.authority().display().to_string(),
    );
    let allowed = Post::with(server, &format!("{network}{}", allowing()));
    assert_eq!(allowed.went(&RunOptions::default(), steps), ["200\n"]);
}
