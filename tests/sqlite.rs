//! The plugin `sqlite` with databases of Python's `sqlite3`, which also checks what the plugin wrote.

use std::fs;
use std::process::{Child, Command, Stdio};

use cofferdam_core::outcome::{Failure, Outcome};
use serde_json::{Value, json};

use crate::hostile::component::Packed;
use crate::support::{Ended, Place, wait_until};
use crate::trial::Trial;

/// Makes the database of most tests.
const SHOP: &str = "
import sqlite3
db = sqlite3.connect('shop.db')
db.executescript('''
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL DEFAULT 1.5, data BLOB);
CREATE TABLE orders (id INTEGER PRIMARY KEY, item INTEGER REFERENCES items (id), note TEXT);
CREATE UNIQUE INDEX by_name ON items (name);
CREATE VIEW cheap AS SELECT name FROM items WHERE price < 2;
CREATE TRIGGER noted AFTER INSERT ON orders BEGIN UPDATE orders SET note = 'new' WHERE id = new.id; END;
''')
db.execute('INSERT INTO items VALUES (1, ?, 1.25, ?)', ('Äpfel \\n', bytes(range(200))))
db.execute('INSERT INTO items VALUES (2, ?, NULL, NULL)', ('x' * 100000,))
db.execute('INSERT INTO items VALUES (3, ?, 9e999, NULL)', ('c',))
db.commit()
";

#[expect(
    clippy::disallowed_methods,
    reason = "Python's SQLite is what the plugin is compared with"
)]
fn command(place: &Place, script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(place.workspace());
    command
}

/// What a script of Python prints.
fn python(place: &Place, script: &str) -> String {
    let ended = Ended::of(&mut command(place, script));
    assert_eq!(ended.status, 0, "{script}: {ended:?}");
    ended.stdout.trim().to_owned()
}

/// Whether Python finds the database undamaged, and what a query of it returns.
fn checked(place: &Place, file: &str, query: &str) -> String {
    let script = format!(
        "import sqlite3\ndb = sqlite3.connect({file:?})\n\
         assert db.execute('PRAGMA integrity_check').fetchall() == [('ok',)]\n\
         print(db.execute({query:?}).fetchall())"
    );
    python(place, &script)
}

fn place(script: &str) -> Place {
    let place = Place::new();
    python(&place, script);
    place
}

fn trial(place: Place, settings: &str) -> Trial {
    let settings =
        format!("[grants.sqlite]\nfiles = 'write'\nconsent.drop = {{ allow = ['*'] }}\n{settings}");
    Trial::with(place, vec![Packed::built_in("sqlite")], &settings)
}

fn done(trial: &Trial, tool: &str, args: Value) -> Value {
    match trial.call(&format!("sqlite.{tool}"), args.clone()) {
        Outcome::Executed(output) => output,
        other => panic!("{tool} {args}: {other:?}"),
    }
}

fn failed(trial: &Trial, tool: &str, args: Value) -> Failure {
    match trial.call(&format!("sqlite.{tool}"), args.clone()) {
        Outcome::Failed(failure) => failure,
        other => panic!("{tool} {args}: {other:?}"),
    }
}

fn query(trial: &Trial, sql: &str) -> Value {
    done(trial, "query_database", json!({"path": "shop.db", "sql": sql}))
}

/// The files in the workspace.
fn files(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.workspace()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != ".cofferdam").collect();
    names.sort();
    names
}

#[test]
fn what_python_has_written_is_read() {
    let trial = trial(place(SHOP), "");
    let rows = query(&trial, "SELECT id, name, price, data FROM items WHERE id <> 2 ORDER BY id");
    let hex: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        rows,
        json!({
            "columns": ["id", "name", "price", "data"],
            "rows": [[1, "Äpfel \n", 1.25, {"hex": hex, "bytes": 200}], [3, "c", "inf", null]],
            "total": 2
        })
    );
    let long = query(&trial, "SELECT name FROM items WHERE id = 2");
    let long = &long["rows"][0][0];
    assert_eq!((long["text"].as_str().unwrap().len(), &long["bytes"]), (4096, &json!(100_000)));
    for (sql, params, wanted) in [
        ("SELECT id FROM items WHERE name = ?", json!(["c"]), json!([[3]])),
        (
            "SELECT id FROM items WHERE name = :n AND id = :id",
            json!({"n": "c", ":id": 3}),
            json!([[3]]),
        ),
        (
            "SELECT ?, ?, ?, ?",
            json!([null, true, 1.5, {"hex": "00fF"}]),
            json!([[null, 1, 1.5, {"hex": "00ff", "bytes": 2}]]),
        ),
        (
            "SELECT sqlite_version() > '3.40', sqrt(4), json('[1]')",
            json!([]),
            json!([[1, 2.0, "[1]"]]),
        ),
        ("PRAGMA integrity_check", json!([]), json!([["ok"]])),
        ("PRAGMA journal_mode", json!([]), json!([["memory"]])),
    ] {
        let args = json!({"path": "./shop.db", "sql": sql, "params": params});
        assert_eq!(done(&trial, "query_database", args)["rows"], wanted, "{sql}");
    }
    let plan = query(&trial, "EXPLAIN QUERY PLAN SELECT * FROM items WHERE name = 'c'");
    assert!(plan["rows"][0][3].as_str().unwrap().contains("by_name"), "{plan}");
}

#[test]
fn a_long_result_comes_in_parts() {
    let script = "import sqlite3\ndb = sqlite3.connect('shop.db')\ndb.execute('CREATE TABLE n (a, b)')\n\
                  db.executemany('INSERT INTO n VALUES (?, ?)', ((i, 'x' * 100) for i in range(2500)))\n\
                  db.commit()";
    let trial = trial(place(script), "");
    let (mut offset, mut seen) = (Some(0), Vec::new());
    while let Some(at) = offset {
        let sql = "SELECT a, b FROM n ORDER BY a";
        let args = json!({"path": "shop.db", "sql": sql, "limit": 1000, "offset": at});
        let page = done(&trial, "query_database", args);
        assert!(page.to_string().len() < 32 << 10);
        assert_eq!((&page["total"], page.get("total_is_minimum")), (&json!(2500), None));
        seen.extend(page["rows"].as_array().unwrap().iter().map(|row| row[0].as_u64().unwrap()));
        offset = page["next"].as_u64();
    }
    assert!(seen.into_iter().eq(0..2500));
    let last = json!({"path": "shop.db", "sql": "SELECT a FROM n", "limit": 10, "offset": 2490});
    let last = done(&trial, "query_database", last);
    assert_eq!((last["rows"].as_array().unwrap().len(), last.get("next")), (10, None));
    // It would never end.
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    let endless = query(&trial, endless);
    assert_eq!(endless["rows"].as_array().unwrap().len(), 100);
    assert_eq!((&endless["total_is_minimum"], &endless["next"]), (&json!(true), &json!(100)));
    let columns: Vec<String> = (0..40).map(|_| "printf('%.*c', 5000, 'x')".to_owned()).collect();
    let wide = json!({"path": "shop.db", "sql": format!("SELECT {}", columns.join(", "))});
    assert_eq!(failed(&trial, "query_database", wide).code.to_string(), "RowTooLarge");
}

#[test]
fn tables_are_described() {
    let trial = trial(place(SHOP), "");
    let described = done(&trial, "describe_database", json!({"path": "shop.db"}));
    assert_eq!(
        described,
        json!({"total": 3, "tables": [
            {"name": "cheap", "type": "view", "columns": ["name TEXT"]},
            {
                "name": "items", "type": "table", "rows": 3,
                "columns": ["id INTEGER PRIMARY KEY", "name TEXT NOT NULL", "price REAL DEFAULT 1.5", "data BLOB"],
                "indexes": ["UNIQUE by_name (name)"]
            },
            {
                "name": "orders", "type": "table", "rows": 0,
                "columns": ["id INTEGER PRIMARY KEY", "item INTEGER", "note TEXT"],
                "foreign_keys": ["item REFERENCES items (id)"],
                "triggers": ["noted"]
            }
        ]})
    );
    let one = done(&trial, "describe_database", json!({"path": "shop.db", "table": "ORDERS"}));
    assert!(one["tables"][0]["sql"].as_str().unwrap().starts_with("CREATE TABLE orders"), "{one}");
    let none = failed(&trial, "describe_database", json!({"path": "shop.db", "table": "none"}));
    assert_eq!(none.code.to_string(), "TableNotFound");

    let many = "import sqlite3\ndb = sqlite3.connect('shop.db')\nfor i in range(500):\n    \
                db.execute(f'CREATE TABLE \"t {i:03}\"\"\" (a, b TEXT NOT NULL DEFAULT \"{\"x\" * 100}\")')\n";
    let trial = self::trial(place(many), "");
    let (mut offset, mut names) = (Some(0), Vec::new());
    while let Some(at) = offset {
        let page = done(&trial, "describe_database", json!({"path": "shop.db", "offset": at}));
        assert!(page.to_string().len() < 32 << 10);
        let tables = page["tables"].as_array().unwrap();
        names.extend(tables.iter().map(|table| table["name"].as_str().unwrap().to_owned()));
        offset = page["next"].as_u64();
    }
    assert!(names.into_iter().eq((0..500).map(|at| format!("t {at:03}\""))));
}

#[test]
fn what_is_written_is_read_by_python() {
    let to_wal = "import sqlite3\nsqlite3.connect('shop.db').execute('PRAGMA journal_mode = WAL')";
    for is_wal in [false, true] {
        let place = place(SHOP);
        if is_wal {
            python(&place, to_wal);
        }
        let trial = trial(place, "");
        let execute = |sql: &str, params: Value| {
            done(&trial, "execute_sql", json!({"path": "shop.db", "sql": sql, "params": params}))
        };
        let inserted =
            execute("INSERT INTO orders (item) VALUES (?), (3) RETURNING id, item", json!([1]));
        assert_eq!(
            inserted,
            json!({
                "statements": 1, "changed_rows": 4, "last_insert_rowid": 2,
                "returned": {"columns": ["id", "item"], "rows": [[1, 1], [2, 3]], "total": 2}
            })
        );
        let several = "BEGIN; UPDATE items SET price = 7; CREATE INDEX i ON items (price); COMMIT; \
                       VACUUM; PRAGMA user_version = 9; -- the end";
        let several = execute(several, json!([]));
        assert_eq!((&several["statements"], &several["changed_rows"]), (&json!(6), &json!(3)));
        assert_eq!(files(&trial.place), ["shop.db"]);
        assert_eq!(
            query(&trial, "SELECT note, item FROM orders")["rows"],
            json!([["new", 1], ["new", 3]])
        );
        let mode = if is_wal { "wal" } else { "delete" };
        for (query, wanted) in [
            ("SELECT note, item FROM orders", "[('new', 1), ('new', 3)]"),
            ("SELECT DISTINCT price FROM items", "[(7.0,)]"),
            ("SELECT name FROM sqlite_schema WHERE name = 'i'", "[('i',)]"),
            ("PRAGMA user_version", "[(9,)]"),
            ("PRAGMA journal_mode", &format!("[('{mode}',)]")),
        ] {
            assert_eq!(checked(&trial.place, "shop.db", query), wanted, "{query}");
        }
    }
    let trial = trial(Place::new(), "");
    let args = json!({"path": "a/new.db", "sql": "CREATE TABLE t (a)", "create": true});
    trial.place.write("a/x", "");
    done(&trial, "execute_sql", args);
    assert_eq!(checked(&trial.place, "a/new.db", "SELECT name FROM sqlite_schema"), "[('t',)]");
}

#[test]
fn a_failed_call_leaves_the_file_untouched() {
    let trial = trial(place(SHOP), "");
    let before = fs::read(trial.place.workspace().join("shop.db")).unwrap();
    for (sql, code) in [
        ("DELETE FROM items; INSERT INTO nothing VALUES (1)", "SqlError"),
        ("UPDATE items SET price = 0; INSERT INTO items (name) VALUES ('c')", "ConstraintFailed"),
        ("INSERT INTO orders (item) VALUES (99)", "ConstraintFailed"),
        ("BEGIN; DELETE FROM items", "TransactionOpen"),
        ("CREATE TABLE t (a); INSERT INTO t VALUES (?)", "InvalidParameters"),
        ("DELETE FROM items; SELEC", "SqlError"),
    ] {
        let failure = failed(&trial, "execute_sql", json!({"path": "shop.db", "sql": sql}));
        assert_eq!(failure.code.to_string(), code, "{sql}: {failure:?}");
        assert!(fs::read(trial.place.workspace().join("shop.db")).unwrap() == before, "{sql}");
        assert_eq!(files(&trial.place), ["shop.db"]);
    }
}

#[test]
fn a_change_is_undone() {
    let place = place(SHOP);
    let before = fs::read(place.workspace().join("shop.db")).unwrap();
    let args = json!({"path": "shop.db", "sql": "UPDATE items SET name = 'y' WHERE id = 3"});
    let ended = place.run(&["call", "sqlite.execute_sql", &args.to_string()]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(checked(&place, "shop.db", "SELECT name FROM items WHERE id = 3"), "[('y',)]");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(fs::read(place.workspace().join("shop.db")).unwrap() == before);
}

/// Tool, file, SQL, and the code and words of the error.
const REFUSED: &[(&str, &str, &str, &str, &str)] = &[
    ("query_database", "none.db", "SELECT 1", "FileNotFoundError", "none.db"),
    ("execute_sql", "none.db", "CREATE TABLE t (a)", "FileNotFoundError", "none.db"),
    ("query_database", "dir", "SELECT 1", "IsADirectoryError", "dir"),
    ("query_database", "text.db", "SELECT 1", "NotADatabase", "does not begin with"),
    ("query_database", "short.db", "SELECT 1", "NotADatabase", "does not begin with"),
    ("execute_sql", "encrypted.db", "SELECT 1", "NotADatabase", "encrypted"),
    ("query_database", "../shop.db", "SELECT 1", "PathNotAllowed", "leaves the workspace"),
    ("query_database", "shop.db", "SELECT 1; SELECT 2", "SqlError", "ultiple"),
    ("query_database", "shop.db", "DELETE FROM items", "StatementNotAllowed", "execute_sql"),
    ("query_database", "shop.db", "BEGIN IMMEDIATE", "StatementNotAllowed", "execute_sql"),
    ("query_database", "shop.db", "CREATE TEMP TABLE t (a)", "StatementNotAllowed", "execute_sql"),
    ("query_database", "shop.db", "PRAGMA user_version = 3", "StatementNotAllowed", "user_version"),
    ("query_database", "shop.db", "SELECT load_extension('x')", "SqlError", "no such function"),
    ("query_database", "shop.db", "SELECT readfile('/etc/passwd')", "SqlError", "no such function"),
    ("execute_sql", "shop.db", "SELECT load_extension('x')", "SqlError", "no such function"),
    ("execute_sql", "shop.db", "ATTACH 'text.db' AS b", "StatementNotAllowed", "ATTACH"),
    ("execute_sql", "shop.db", "ATTACH ':memory:' AS b", "StatementNotAllowed", "ATTACH"),
    ("query_database", "shop.db", "ATTACH '/etc/passwd' AS b", "StatementNotAllowed", "ATTACH"),
    ("execute_sql", "shop.db", "VACUUM INTO 'copy.db'", "StatementNotAllowed", "VACUUM INTO"),
    (
        "execute_sql",
        "shop.db",
        "PRAGMA writable_schema = ON",
        "StatementNotAllowed",
        "writable_schema",
    ),
    ("execute_sql", "shop.db", "PRAGMA journal_mode = OFF", "StatementNotAllowed", "journal_mode"),
    ("execute_sql", "shop.db", "PRAGMA hard_heap_limit = 0", "StatementNotAllowed", "hard_heap"),
    (
        "execute_sql",
        "shop.db",
        "PRAGMA temp_store_directory = '/'",
        "StatementNotAllowed",
        "temp_store",
    ),
    (
        "execute_sql",
        "shop.db",
        "UPDATE sqlite_schema SET sql = ''",
        "SqlError",
        "may not be modified",
    ),
    ("query_database", "shop.db", "SELECT zeroblob(1000000000)", "ValueTooLarge", "32 MiB"),
    (
        "query_database",
        "shop.db",
        "SELECT * FROM items WHERE id = ?",
        "InvalidParameters",
        "1 parameters",
    ),
];

#[test]
fn what_reaches_further_is_refused() {
    let trial = trial(place(SHOP), "");
    trial.place.write("text.db", "no database at all".repeat(100));
    trial.place.write("short.db", "SQLite format 3\0");
    trial
        .place
        .write("encrypted.db", (0..8192u32).map(|at| (at * 7919 % 251) as u8).collect::<Vec<_>>());
    trial.place.write("dir/x", "");
    for (tool, path, sql, code, words) in REFUSED {
        let failure = failed(&trial, tool, json!({"path": path, "sql": sql}));
        assert_eq!(failure.code.to_string(), *code, "{path} {sql}: {failure:?}");
        assert!(failure.message.contains(words), "{path} {sql}: {failure:?}");
    }
    assert!(!files(&trial.place).contains(&"copy.db".to_owned()));
}

#[test]
fn a_statement_that_never_ends_is_stopped() {
    let trial = trial(place(SHOP), "[limits]\ncall-ms = 2000\n");
    for sql in [
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c WHERE x < 0",
    ] {
        let failure = failed(&trial, "query_database", json!({"path": "shop.db", "sql": sql}));
        assert_eq!(failure.code.to_string(), "QueryTimeout", "{sql}: {failure:?}");
    }
    let large = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100) \
                 SELECT length(group_concat(hex(zeroblob(10000000)))) FROM c";
    let failure = failed(&trial, "query_database", json!({"path": "shop.db", "sql": large}));
    let code = failure.code.to_string();
    assert!(
        ["OutOfMemory", "ValueTooLarge", "QueryTimeout"].contains(&code.as_str()),
        "{failure:?}"
    );
    let deep = format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    let failure = failed(&trial, "query_database", json!({"path": "shop.db", "sql": deep}));
    assert_eq!(failure.code.to_string(), "SqlError", "{failure:?}");
}

/// A program that has the database open until its standard input ends.
struct Open(Child);

impl Open {
    fn new(place: &Place, script: &str) -> Self {
        let script = format!(
            "import sqlite3, sys\ndb = sqlite3.connect('shop.db', isolation_level=None)\n{script}\n\
             open('ready', 'w').close()\nsys.stdin.read()"
        );
        let child = command(place, &script).stdin(Stdio::piped()).spawn().unwrap();
        wait_until(|| place.workspace().join("ready").exists());
        Self(child)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_database_that_another_program_has_open_is_not_changed() {
    let insert = json!({"path": "shop.db", "sql": "INSERT INTO items (name) VALUES ('z')"});
    let wal = trial(place(SHOP), "");
    let open = Open::new(
        &wal.place,
        "db.execute('PRAGMA journal_mode = WAL')\ndb.execute(\"INSERT INTO items (name) VALUES ('new')\")",
    );
    // It is in the log only.
    assert_eq!(query(&wal, "SELECT count(*) FROM items")["rows"], json!([[4]]));
    let failure = failed(&wal, "execute_sql", insert.clone());
    assert_eq!(failure.code.to_string(), "DatabaseInUse", "{failure:?}");
    drop(open);
    done(&wal, "execute_sql", insert.clone());
    assert_eq!(checked(&wal.place, "shop.db", "SELECT count(*) FROM items"), "[(5,)]");

    let journal = trial(place(SHOP), "");
    let open = Open::new(
        &journal.place,
        "db.execute('PRAGMA cache_size = 1')\ndb.execute('BEGIN')\n\
         db.execute(\"INSERT INTO items (name) VALUES ('new')\")\n\
         for i in range(500): db.execute('INSERT INTO orders (note) VALUES (?)', ('x' * 1000,))",
    );
    for (tool, args) in [
        ("execute_sql", insert.clone()),
        ("query_database", json!({"path": "shop.db", "sql": "SELECT 1"})),
        ("describe_database", json!({"path": "shop.db"})),
    ] {
        let failure = failed(&journal, tool, args);
        assert_eq!(failure.code.to_string(), "DatabaseInUse", "{failure:?}");
        assert!(failure.message.contains("shop.db-journal"), "{failure:?}");
    }
    drop(open);
    done(&journal, "execute_sql", insert);
    assert_eq!(checked(&journal.place, "shop.db", "SELECT count(*) FROM items"), "[(4,)]");
}

#[test]
fn a_damaged_database_does_no_harm() {
    let script = "import sqlite3\ndb = sqlite3.connect('shop.db')\ndb.execute('PRAGMA page_size = 512')\n\
                  db.execute('CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c)')\n\
                  db.execute('CREATE INDEX i ON t (b)')\n\
                  db.executemany('INSERT INTO t (b, c) VALUES (?, ?)', ((str(i), 'x' * (i % 900)) for i in range(60)))\n\
                  db.commit()";
    let trial = trial(place(script), "[limits]\ncall-ms = 5000\n");
    let file = trial.place.workspace().join("shop.db");
    let whole = fs::read(&file).unwrap();
    let mut random = 1u64;
    let mut next = |most: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % most
    };
    let (mut answers, mut codes) = (0, std::collections::BTreeSet::new());
    for round in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..=next(8) {
            // Every other time in the first page, which has the header and the schema.
            let at = 16 + next(if round % 2 == 0 { 600 } else { whole.len() - 16 });
            damaged[at] = u8::try_from(next(256)).unwrap();
        }
        if round % 10 == 9 {
            damaged.truncate(next(whole.len()));
        }
        fs::write(&file, damaged).unwrap();
        for (tool, sql) in [
            ("query_database", Some("SELECT *, length(c) FROM t ORDER BY b")),
            ("query_database", Some("PRAGMA integrity_check")),
            (
                "execute_sql",
                Some("INSERT INTO t (b) VALUES ('new'); DELETE FROM t WHERE a % 2; REINDEX"),
            ),
            ("describe_database", None),
        ] {
            let mut args = json!({"path": "shop.db"});
            args.as_object_mut().unwrap().extend(sql.map(|sql| ("sql".to_owned(), json!(sql))));
            match trial.call(&format!("sqlite.{tool}"), args) {
                Outcome::Executed(_) => answers += 1,
                Outcome::Failed(failure) => {
                    codes.insert(failure.code.to_string());
                }
            }
        }
    }
    assert!(answers > 100 && codes.contains("DatabaseCorrupt"), "{answers} {codes:?}");
    // An error of the tool each time.
    let crashed = codes.iter().find(|code| code.starts_with("Plugin") || code.ends_with("Limit"));
    assert_eq!(crashed, None, "{codes:?}");
    // The host goes on.
    fs::write(&file, whole).unwrap();
    assert_eq!(query(&trial, "SELECT count(*) FROM t")["rows"], json!([[60]]));
}
