//! Tests the tools on small workspaces in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use crate::api::discover;
use crate::args::{
    DiscoverApiArgs, GetSourceArgs, LocateSymbolArgs, TraceCallsArgs, TraceEndpointArgs,
};
use crate::project::Deadline;
use crate::project::testing::Memory;
use crate::{calls, endpoint, locate, source};

fn deadline() -> Deadline {
    Deadline::new(60_000)
}

fn root(arguments: &Value) -> String {
    arguments["path"].as_str().unwrap_or_default().to_owned()
}

/// Calls a tool; returns its result, or its error's code and message.
fn call(files: &Memory, tool: &str, arguments: Value) -> Result<Value, (String, String)> {
    let root = root(&arguments);
    let shown = |answer: serde_json::Result<Value>| Ok(answer.unwrap());
    let answer = match tool {
        "locate_symbol" => {
            let args: LocateSymbolArgs = serde_json::from_value(arguments).unwrap();
            locate::locate(args, root, files, &mut deadline()).map(serde_json::to_value)
        }
        "get_source" => {
            let args: GetSourceArgs = serde_json::from_value(arguments).unwrap();
            source::get_source(args, root, files, &mut deadline()).map(serde_json::to_value)
        }
        "discover_api" => {
            let args: DiscoverApiArgs = serde_json::from_value(arguments).unwrap();
            let path = args.module.trim_end_matches('/').to_owned();
            discover(&args, Some(&path), files, &mut deadline()).map(serde_json::to_value)
        }
        "trace_calls" => {
            let args: TraceCallsArgs = serde_json::from_value(arguments).unwrap();
            calls::trace(args, root, files, &mut deadline()).map(serde_json::to_value)
        }
        _ => {
            let args: TraceEndpointArgs = serde_json::from_value(arguments).unwrap();
            endpoint::trace(&args, &root, files, &mut deadline()).map(serde_json::to_value)
        }
    };
    answer.map_or_else(|error| Err((error.code, error.message)), shown)
}

/// The values of a field in each element.
fn each<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}

fn project() -> Memory {
    Memory::new([
        (
            "src/app/__init__.py",
            "from .helpers.file_helpers import get_file\nfrom . import service\n",
        ),
        (
            "src/app/helpers/file_helpers.py",
            "import os\n\n\ndef get_file(path: str) -> bytes:\n    \"\"\"Reads it.\"\"\"\n    return _open(path).read()\n\n\
             def _open(path):\n    return open(path)\n\n\nclass Cache:\n    def get_file(self): ...\n",
        ),
        (
            "src/app/helpers/__init__.py",
            "from .file_helpers import *\n__all__ = ['get_file', 'Cache', 'file_helpers']\n",
        ),
        ("src/app/service.py", "LIMIT = 3\n"),
        ("web/index.ts", "export function getFile() {}\n"),
        ("broken.py", "def get_file(:\n  pass\ndef other(): ...\n"),
    ])
}

#[test]
fn symbols_are_located_by_any_part_of_their_name() {
    let files = project();
    for (name, wanted) in [
        ("app.helpers.file_helpers.get_file", &["src.app.helpers.file_helpers.get_file"][..]),
        ("file_helpers.get_file", &["src.app.helpers.file_helpers.get_file"]),
        ("Cache.get_file", &["src.app.helpers.file_helpers.Cache.get_file"]),
        ("LIMIT", &["src.app.service.LIMIT"]),
        ("getFile", &["web.getFile"]),
        ("web/getFile", &["web.getFile"]),
        ("other", &["broken.other"]),
    ] {
        let found = call(&files, "locate_symbol", json!({"symbol": name})).unwrap();
        assert_eq!(each(&found["matches"], "symbol"), wanted, "{name}");
    }
    let found =
        call(&files, "locate_symbol", json!({"symbol": "get_file", "path": "src"})).unwrap();
    assert_eq!(found["total"], 2);
    assert_eq!(
        found["matches"][0],
        json!({
            "symbol": "src.app.helpers.file_helpers.get_file",
            "kind": "function",
            "language": "python",
            "file": "src/app/helpers/file_helpers.py",
            "line": 4,
            "column": 1,
            "end_line": 6,
            "signature": "def get_file(path: str) -> bytes",
            "doc": "Reads it.",
            "public": true,
        })
    );
    let one = json!({"symbol": "get_file", "path": "src", "limit": 1});
    let found = call(&files, "locate_symbol", one).unwrap();
    assert_eq!((&found["total"], &found["truncated"]), (&json!(2), &json!(true)));
    let methods = json!({"symbol": "get_file", "kinds": ["method"]});
    let found = call(&files, "locate_symbol", methods).unwrap();
    assert_eq!(each(&found["matches"], "symbol"), ["src.app.helpers.file_helpers.Cache.get_file"]);
    let found = call(&files, "locate_symbol", json!({"symbol": "get_file"})).unwrap();
    assert_eq!(found["unparsed"][0]["file"], "broken.py");
    assert_eq!((&found["unparsed"][0]["line"], &found["unparsed_total"]), (&json!(1), &json!(1)));
}

#[test]
fn unknown_names_have_suggestions() {
    let files = project();
    for (arguments, code, wanted) in [
        (
            json!({"symbol": "get_fiel", "path": "src"}),
            "SymbolNotFound",
            "Did you mean src.app.helpers.file_helpers.get_file",
        ),
        (json!({"symbol": "GET_FILE", "path": "src"}), "SymbolNotFound", "get_file"),
        (
            json!({"symbol": "other.get_file", "path": "src"}),
            "SymbolNotFound",
            "Did you mean src.app.helpers.file_helpers.get_file",
        ),
        (json!({"symbol": "zzzzzzzzz"}), "SymbolNotFound", "no symbol 'zzzzzzzzz' in 6 files"),
        (json!({"symbol": "get_file.x"}), "SymbolNotFound", "no symbol"),
        (json!({"symbol": "a b"}), "InvalidSymbol", "white space"),
        (json!({"symbol": "x", "path": "nowhere"}), "PathNotFound", "nowhere"),
    ] {
        let (found, message) = match call(&files, "locate_symbol", arguments.clone()) {
            Ok(answer) => {
                assert_eq!((&answer["total"], &answer["matches"]), (&json!(0), &json!([])));
                let text = |name: &str| answer["notice"][name].as_str().unwrap().to_owned();
                (text("code"), text("message"))
            }
            Err(error) => error,
        };
        assert_eq!(found, code, "{arguments}");
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn sources_are_unchanged_text() {
    let files = Memory::new([(
        "a.py",
        "class A:\n    @cached(\n        1)\n    def f(self):\n        \"\"\"Does.\"\"\"\r\n        return 1\n\n    x = 1\n",
    )]);
    let found = call(&files, "get_source", json!({"symbol": "A.f"})).unwrap();
    let source = &found["sources"][0];
    assert_eq!(
        source["source"],
        "    @cached(\n        1)\n    def f(self):\n        \"\"\"Does.\"\"\"\r\n        return 1"
    );
    assert_eq!(
        (&source["start_line"], &source["line"], &source["end_line"]),
        (&json!(2), &json!(4), &json!(6))
    );
    assert_eq!(source["decorators"], json!(["cached( 1)"]));
    assert_eq!(source["doc"], "Does.");
    assert_eq!(source.get("shown_to_line"), None);
    let found = call(&files, "get_source", json!({"symbol": "A", "max_lines": 2})).unwrap();
    let source = &found["sources"][0];
    assert_eq!(source["source"], "class A:\n    @cached(\n");
    assert_eq!(source["shown_to_line"], 2);
}

#[test]
fn the_api_of_modules_is_listed() {
    let files = project();
    for module in ["app.helpers.file_helpers", "src/app/helpers/file_helpers.py", "file_helpers"] {
        let found = call(&files, "discover_api", json!({"module": module})).unwrap();
        assert_eq!(
            each(&found["files"][0]["symbols"], "name"),
            ["get_file", "Cache", "Cache.get_file"]
        );
        assert_eq!(found["private_left_out"], 1);
    }
    let all = json!({"module": "file_helpers", "private": true});
    let found = call(&files, "discover_api", all).unwrap();
    assert_eq!(
        each(&found["files"][0]["symbols"], "name"),
        ["get_file", "_open", "Cache", "Cache.get_file"]
    );

    for module in ["app", "src/app"] {
        let found = call(&files, "discover_api", json!({"module": module})).unwrap();
        let file = &found["files"][0];
        assert_eq!(file["file"], "src/app/__init__.py");
        assert_eq!(
            file["reexports"],
            json!([
                {
                    "name": "get_file",
                    "from": ".helpers.file_helpers.get_file",
                    "line": 1,
                    "defined": {
                        "file": "src/app/helpers/file_helpers.py",
                        "line": 4,
                        "kind": "function",
                        "signature": "def get_file(path: str) -> bytes",
                        "doc": "Reads it.",
                    },
                },
                {
                    "name": "service",
                    "from": ".service",
                    "line": 2,
                    "defined": {"file": "src/app/service.py", "line": 1, "kind": "module"},
                },
            ])
        );
        assert_eq!(found["submodules"], json!(["src/app/helpers/", "src/app/service.py"]));
    }
    // Includes names from `import *`, and modules.
    let found = call(&files, "discover_api", json!({"module": "app.helpers"})).unwrap();
    let reexports = &found["files"][0]["reexports"];
    assert_eq!(each(reexports, "name"), ["get_file", "Cache", "file_helpers"]);
    let lines: Vec<&Value> = (0..3).map(|index| &reexports[index]["defined"]["line"]).collect();
    assert_eq!(lines, [&json!(4), &json!(12), &json!(1)]);

    let one = json!({"module": "file_helpers", "limit": 1});
    let found = call(&files, "discover_api", one).unwrap();
    assert_eq!((&found["total"], &found["truncated"]), (&json!(3), &json!(true)));
    let (code, message) =
        call(&files, "discover_api", json!({"module": "app.file_helper"})).unwrap_err();
    assert_eq!(code, "ModuleNotFound");
    assert!(message.contains("src/app/helpers/file_helpers.py"), "{message}");
}

#[test]
fn an_ambiguous_module_is_an_error() {
    let files = Memory::new([("a/util.py", "x = 1\n"), ("b/util.py", "y = 1\n")]);
    let (code, message) = call(&files, "discover_api", json!({"module": "util"})).unwrap_err();
    assert_eq!(code, "AmbiguousModule");
    assert!(message.contains("a/util.py, b/util.py"), "{message}");
}

#[test]
fn dunder_all_determines_the_api() {
    let files = Memory::new([(
        "m.py",
        "__all__ = ['_hidden', 'Shown'] + ['late']\n__all__ += ['later']\ndef _hidden(): ...\ndef plain(): ...\n\
         class Shown:\n    def run(self): ...\n    def _no(self): ...\nlate = later = 1\n",
    )]);
    let found = call(&files, "discover_api", json!({"module": "m"})).unwrap();
    let names = each(&found["files"][0]["symbols"], "name");
    assert_eq!(names, ["_hidden", "Shown", "Shown.run", "late", "later"]);
    assert_eq!(found["files"][0]["exports"], json!(["_hidden", "Shown", "late", "later"]));
}

const CALLS: &str = r#"import json
import app.store as store
from app.store import Store, make as build
from . import tools

def main(name: str, given: "Store | None" = None):
    keep = Store(name)
    keep.save()
    keep.helper.run()
    build().load()
    given.load()
    store.make()
    tools.twice()
    json.dumps({}).encode()
    print(name)
    name.unknown.thing()
    nowhere()
    return inner()

def inner():
    def deep():
        return main("x")
    return deep()
"#;

/// A project whose function `app.main.main` calls in every supported way.
fn calls() -> Memory {
    Memory::new([
        ("app/main.py", CALLS),
        (
            "app/store.py",
            r#"from app.base import Base
from app.tools import Helper

class Store(Base):
    def __init__(self, name):
        super().__init__()
        self.name = self.clean(name)
        self.helper = Helper()

    def save(self):
        self.check()

    @classmethod
    def of(cls):
        return cls("x")

    @staticmethod
    def clean(name): return name.strip()

def make() -> Store:
    return Store.of()
"#,
        ),
        (
            "app/base.py",
            "class Base:\n    def __init__(self): ...\n    def check(self): ...\n    def load(self):\n        self.check()\n",
        ),
        (
            "app/tools.py",
            "class Helper:\n    def run(self): twice()\n\ndef twice(): return [once() for _ in range(2)]\ndef once(): return twice()\n",
        ),
        ("app/__init__.py", ""),
    ])
}

/// The calls in a result of `trace_calls`, one line each, indented by depth.
fn call_rows(found: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let note = row["not_followed"].as_str().map(|why| format!(" ({why})"));
        let text = |name: &str| row[name].as_str().unwrap().trim_start_matches("app.").to_owned();
        format!(
            "{}{} {}:{} at {}{}",
            "  ".repeat(row["depth"].as_u64().unwrap() as usize - 1),
            text("symbol"),
            row["file"].as_str().unwrap(),
            row["line"],
            row["called_at"],
            note.unwrap_or_default(),
        )
    };
    found["calls"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn calls_are_followed_across_files() {
    let files = calls();
    let arguments = json!({"symbol": "app.main.main", "depth": 4});
    let found = call(&files, "trace_calls", arguments).unwrap();
    assert_eq!(found["root"]["symbol"], "app.main.main");
    let wanted = [
        "store.Store app/store.py:4 at [7]",
        "  base.Base.__init__ app/base.py:2 at [6]",
        "  store.Store.clean app/store.py:18 at [7]",
        "  tools.Helper app/tools.py:1 at [8]",
        "store.Store.save app/store.py:10 at [8]",
        "  base.Base.check app/base.py:3 at [11]",
        "tools.Helper.run app/tools.py:2 at [9]",
        "  tools.twice app/tools.py:4 at [2]",
        "    tools.once app/tools.py:5 at [4]",
        "      tools.twice app/tools.py:4 at [5] (cycle)",
        "base.Base.load app/base.py:4 at [10,11]",
        "  base.Base.check app/base.py:3 at [5]",
        "store.make app/store.py:20 at [10,12]",
        "  store.Store.of app/store.py:14 at [21]",
        "    store.Store app/store.py:4 at [15] (repeated)",
        "tools.twice app/tools.py:4 at [13] (repeated)",
        "main.inner app/main.py:20 at [18]",
        "  main.inner.deep app/main.py:21 at [23]",
        "    main.main app/main.py:6 at [22] (cycle)",
    ];
    assert_eq!(call_rows(&found), wanted);
    let external = each(&found["external"], "name");
    assert_eq!(
        external,
        [
            "builtins.print",
            "builtins.range",
            "builtins.str.unknown.thing",
            "json.dumps",
            "json.dumps().encode"
        ]
    );
    let unresolved = each(&found["unresolved"], "name");
    assert_eq!(unresolved, ["nowhere", "name.strip"]);
}

#[test]
fn calls_have_limits_and_errors() {
    let files = calls();
    let arguments = json!({"symbol": "app.main.main", "depth": 1, "limit": 2});
    let found = call(&files, "trace_calls", arguments).unwrap();
    assert_eq!((&found["total"], &found["truncated"]), (&json!(7), &json!(true)));
    assert_eq!(found["calls"][0]["not_followed"], "depth");

    for (name, code, wanted) in [
        ("__init__", "AmbiguousSymbol", "app.base.Base.__init__ (app/base.py line 2)"),
        ("Store.name", "NotCallable", "neither a function nor a class"),
        ("mian", "SymbolNotFound", "app.main.main"),
    ] {
        let (found, message) = call(&files, "trace_calls", json!({"symbol": name})).unwrap_err();
        assert_eq!(found, code);
        assert!(message.contains(wanted), "{message}");
    }
}

fn endpoints(files: &Memory) -> Vec<String> {
    let found = call(files, "trace_endpoint", json!({})).unwrap();
    let list = found["endpoints"].as_array().unwrap();
    list.iter()
        .map(|one| {
            let methods: Vec<&str> = one["methods"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect();
            let mounted = if one["mounted"] == true { "" } else { " (not mounted)" };
            let handler = one["handler"]["symbol"].as_str().unwrap();
            format!("{} {} {handler}{mounted}", methods.join(","), one["path"].as_str().unwrap())
        })
        .collect()
}

const FASTAPI: &str = r#"from fastapi import FastAPI, Depends
from app.api import router as api_router
from app.core import settings
from app.deps import log
import app.items

app = FastAPI(dependencies=[Depends(log)])
app.include_router(api_router, prefix=settings.PREFIX)
app.include_router(app.items.router, prefix=UNKNOWN)

@app.get("/health")
async def health():
    return {}

@app.websocket("/ws")
async def ws(socket): ...

def ready(): return health()
app.add_api_route("/ready", ready, methods=["GET", "HEAD"])
"#;

fn fastapi() -> Memory {
    Memory::new([
        ("app/main.py", FASTAPI),
        ("app/core.py", "class Settings:\n    PREFIX: str = '/api/v1'\nsettings = Settings()\n"),
        (
            "app/api/__init__.py",
            "from fastapi import APIRouter, Depends\nfrom app.api import users\nfrom app.deps import auth\n\
             router = APIRouter()\nrouter.include_router(users.router, prefix='/users', dependencies=[Depends(auth)])\n",
        ),
        (
            "app/api/users.py",
            r#"from typing import Annotated
from fastapi import APIRouter, Depends
from app.deps import Session, session, CurrentUser
from app.service import Users

router = APIRouter(prefix="/v", tags=["users"])

@router.get(
    "/{user_id}",
)
async def get_user(user_id: int, user: CurrentUser, service: Users = Depends(), db=Depends(session)):
    return service.get(user_id)

@router.api_route("/any", methods=["PUT", "POST"])
def anything(db: Annotated[Session, Depends(session)]): ...
"#,
        ),
        (
            "app/items.py",
            "from fastapi import APIRouter\nrouter = APIRouter()\n@router.delete('/items')\ndef remove(): ...\n",
        ),
        (
            "app/lost.py",
            "from fastapi import APIRouter\nrouter = APIRouter(prefix='/lost')\n@router.get('')\ndef lost(): ...\n",
        ),
        (
            "app/deps.py",
            "from typing import Annotated\nfrom fastapi import Depends\nclass Session: ...\nclass User: ...\n\
             def session() -> Session: return Session()\ndef log(): ...\ndef auth(): ...\ndef user(): return load()\n\
             def load(): ...\nCurrentUser = Annotated[User, Depends(user)]\n",
        ),
        (
            "app/service.py",
            "class Users:\n    def __init__(self): self.table = {}\n    def get(self, key):\n        return self.find(key)\n    def find(self, key): ...\n",
        ),
        ("app/__init__.py", ""),
        (
            "other.py",
            "import requests\nrequests.get('/nothing')\n@cache.get('/no')\ndef no(): ...\n",
        ),
    ])
}

#[test]
fn fastapi_endpoints_are_found() {
    assert_eq!(
        endpoints(&fastapi()),
        [
            "POST,PUT /api/v1/users/v/any app.api.users.anything",
            "GET /api/v1/users/v/{user_id} app.api.users.get_user",
            "GET /health app.main.health",
            "GET /lost app.lost.lost (not mounted)",
            "GET,HEAD /ready app.main.ready",
            "WEBSOCKET /ws app.main.ws",
            "DELETE <UNKNOWN>/items app.items.remove",
        ]
    );
}

#[test]
fn an_endpoint_is_traced_with_its_dependencies() {
    let files = fastapi();
    for wanted in
        ["GET /api/v1/users/v/{user_id}", "/api/v1/users/v/42", "get_user", "users.get_user"]
    {
        let found = call(&files, "trace_endpoint", json!({"endpoint": wanted})).unwrap();
        assert_eq!(found["total"], 1, "{wanted}");
        let endpoint = &found["endpoints"][0];
        assert_eq!((&endpoint["file"], &endpoint["line"]), (&json!("app/api/users.py"), &json!(8)));
        assert_eq!(endpoint["handler"]["line"], 11);
        let dependencies: Vec<String> = endpoint["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                format!("{} {}", one["symbol"].as_str().unwrap(), one["asked_by"].as_str().unwrap())
            })
            .collect();
        assert_eq!(
            dependencies,
            [
                "app.deps.log router",
                "app.deps.auth include",
                "app.deps.user parameter",
                "app.service.Users parameter",
                "app.deps.session parameter",
            ]
        );
        let trace = &endpoint["trace"];
        assert_eq!(
            each(&trace["calls"], "symbol"),
            [
                "app.service.Users.get",
                "app.service.Users.find",
                "app.deps.load",
                "app.deps.Session",
            ]
        );
        assert_eq!(trace["unresolved_total"], 0);
    }
    for (wanted, code, hint) in [
        ("POST /health", "EndpointNotFound", "Did you mean GET /health"),
        ("/healt", "EndpointNotFound", "GET /health"),
        ("GET health", "InvalidEndpoint", "Write"),
        ("nothing", "EndpointNotFound", "no endpoint 'nothing' among 7"),
    ] {
        let (found, message) =
            call(&files, "trace_endpoint", json!({"endpoint": wanted})).unwrap_err();
        assert_eq!(found, code, "{wanted}");
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn flask_endpoints_are_found() {
    let files = Memory::new([
        (
            "shop/__init__.py",
            r#"from flask import Flask

def create_app():
    app = Flask(__name__)
    from .users import bp
    from .admin import admin as admin_bp
    app.register_blueprint(bp)
    app.register_blueprint(admin_bp, url_prefix="/manage")

    @app.route("/")
    def index():
        return helper()

    app.add_url_rule("/about", "about", view_func=about)
    return app

def about(): ...
def helper(): ...
"#,
        ),
        (
            "shop/users.py",
            r#"from flask import Blueprint
from flask.views import MethodView

bp = Blueprint("users", __name__, url_prefix="/users")

@bp.route("/<int:id>", methods=("GET", "POST"))
@login_required
def show(id): return load(id)

@bp.get("/")
def all(): ...

def load(id): ...

class View(MethodView):
    def get(self): return load(1)
    def post(self): ...

bp.add_url_rule("/view/", view_func=View.as_view("view"))
"#,
        ),
        (
            "shop/admin.py",
            "from flask import Blueprint\nadmin = Blueprint('admin', __name__, url_prefix='/admin')\n\
             inner = Blueprint('inner', __name__)\nadmin.register_blueprint(inner, url_prefix='/inner')\n\
             @admin.route('stats')\ndef stats(): ...\n@inner.route('/deep')\ndef deep(): ...\n",
        ),
    ]);
    assert_eq!(
        endpoints(&files),
        [
            "GET / shop.create_app.index",
            "GET /about shop.about",
            "GET /manage/inner/deep shop.admin.deep",
            "GET /manage/stats shop.admin.stats",
            "GET /users/ shop.users.all",
            "GET,POST /users/<int:id> shop.users.show",
            "GET /users/view/ shop.users.View.get",
            "POST /users/view/ shop.users.View.post",
        ]
    );
    let found = call(&files, "trace_endpoint", json!({"endpoint": "/users/7"})).unwrap();
    assert_eq!(each(&found["endpoints"][0]["trace"]["calls"], "symbol"), ["shop.users.load"]);
}

#[test]
fn a_router_that_includes_itself_terminates() {
    let files = Memory::new([(
        "a.py",
        "from fastapi import APIRouter\na = APIRouter()\nb = APIRouter()\na.include_router(b)\nb.include_router(a)\n\
         @a.get('/x')\ndef x(): ...\n",
    )]);
    let found = call(&files, "trace_endpoint", json!({})).unwrap();
    assert!(found["total"].as_u64().unwrap() <= 1);
}

#[test]
fn a_file_nested_too_deeply_does_not_fail_the_search() {
    let deep = format!("def target(): ...\nx = {}1{}\n", "(".repeat(100_000), ")".repeat(100_000));
    let long = format!("def target(): ...\nx = {}1\n", "1 + ".repeat(100_000));
    let files = Memory::new([
        ("deep.py", deep.as_str()),
        ("good.py", "def target(): ...\n"),
        ("long.py", long.as_str()),
    ]);
    let found = call(&files, "locate_symbol", json!({"symbol": "target"})).unwrap();
    assert_eq!(each(&found["matches"], "file"), ["good.py"]);
    assert_eq!(each(&found["unparsed"], "file"), ["deep.py", "long.py"]);
    assert_eq!(found["unparsed"][0]["line"], 2);
}

#[test]
fn a_second_search_uses_the_stored_index() {
    let texts: Vec<(String, String)> = (0..100)
        .map(|number| {
            let text = format!("class Thing:\n    def get_{number}(self): ...\n");
            (format!("m{number:02}.py"), text)
        })
        .chain([("broken.py".to_owned(), "class Thing(:\n".to_owned())])
        .collect();
    let mut files = Memory::new(texts.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let search = |files: &Memory| call(files, "locate_symbol", json!({"symbol": "Thing"}));
    let first = search(&files).unwrap();
    assert_eq!((&first["total"], &first["unparsed_total"]), (&json!(101), &json!(1)));
    assert!(!files.1.borrow().is_empty());
    assert_eq!(search(&files).unwrap(), first);

    // Changed contents are parsed again, moved files are not.
    files.0.insert("m00.py".to_owned(), b"class Thong: ...  # Thing".to_vec());
    let moved = files.0.remove("m01.py").unwrap();
    files.0.insert("moved/m01.py".to_owned(), moved);
    let after = search(&files).unwrap();
    assert_eq!(after["total"], 100);

    // The stored index is used: here, one in which nothing is called Thing.
    let kept = files.1.borrow().clone();
    for bytes in files.1.borrow_mut().values_mut() {
        while let Some(at) = memchr::memmem::find(bytes, b"Thing") {
            bytes[at..at + 5].copy_from_slice(b"Other");
        }
    }
    let nothing = search(&files).unwrap();
    assert_eq!(nothing["notice"]["code"], "SymbolNotFound", "{nothing}");
    *files.1.borrow_mut() = kept;
    assert_eq!(search(&files).unwrap(), after);
}
