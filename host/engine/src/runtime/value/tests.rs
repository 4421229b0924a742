#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;
use wasmtime::{Config, Engine};

use super::*;
use cofferdam_core::schema::Schema;
use cofferdam_plugin::typed;

const TYPES: &str = r#"
  (type $point' (record (field "x" s32) (field "label" (option string))))
  (import "point" (type $point (eq $point')))
  (type $shape' (variant (case "dot") (case "circle" f64) (case "path" (list $point))))
  (import "shape" (type $shape (eq $shape')))
  (type $color' (enum "red" "green"))
  (import "color" (type $color (eq $color')))
  (type $style' (flags "bold" "wide" "tall"))
  (import "style" (type $style (eq $style')))
  (type $maybe (option string))
  (type $twice (option $maybe))
  (type $thrice (option $twice))
  (type $maybe-result (option (result u8 (error $color))))
  (type $bytes (list u8))
"#;

/// A component with a function that takes and returns a type, and the type in the engine.
fn of(ty: &str) -> (Vec<u8>, Type) {
    let function = format!("(import \"i\" (func $f (param \"it\" {ty}) (result {ty})))");
    let text = format!("(component {TYPES} {function} (export \"f\" (func $f)))");
    let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{ty}: {error}"));
    // The engine does not accept imports that are exported unchanged.
    let text = format!("(component {TYPES} {function})");
    (bytes, parameters(&text).remove(0))
}

/// The types of the parameters of the imported function `i`.
fn parameters(text: &str) -> Vec<Type> {
    let engine = Engine::new(&Config::new()).unwrap();
    let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
    let import = component.component_type().get_import(&engine, "i").unwrap().ty;
    let ComponentItem::ComponentFunc(function) = import else { panic!("'i' is no function") };
    function.params().map(|(_, ty)| ty).collect()
}

fn from_json(json: &Value, ty: &Type) -> Result<Val, TypeMismatch> {
    Budget::new().value(json, ty)
}

#[test]
fn simple_values_are_converted_without_loss() {
    assert_converted_without_loss(&[
        ("bool", &[json!(true), json!(false)]),
        ("s8", &[json!(-128), json!(127)]),
        ("u8", &[json!(0), json!(255)]),
        ("s16", &[json!(-32768), json!(32767)]),
        ("u16", &[json!(65535)]),
        ("s32", &[json!(i32::MIN), json!(i32::MAX)]),
        ("u32", &[json!(u32::MAX)]),
        ("s64", &[json!(i64::MIN), json!(i64::MAX), json!(9_007_199_254_740_993_i64)]),
        ("u64", &[json!(u64::MAX), json!(18_446_744_073_709_551_614_u64)]),
        ("f32", &[json!(0.1), json!(-1.5), json!(3.402_823_5e38), json!(1e-45)]),
        ("f64", &[json!(0.1), json!(1e308), json!(5e-324)]),
        ("char", &[json!("a"), json!("é"), json!("🦀"), json!("\u{0}")]),
        ("string", &[json!(""), json!("a\nb"), json!("\u{202e}")]),
        ("$point", &[json!({"x": 1, "label": "a"}), json!({"x": -1, "label": null})]),
        (
            "$shape",
            &[
                json!({"tag": "dot"}),
                json!({"tag": "circle", "value": 1.5}),
                json!({"tag": "path", "value": [{"x": 1, "label": null}]}),
            ],
        ),
        ("$color", &[json!("red"), json!("green")]),
        ("$style", &[json!([]), json!(["bold"]), json!(["bold", "wide", "tall"])]),
    ]);
}

#[test]
fn compound_values_are_converted_without_loss() {
    assert_converted_without_loss(&[
        ("(list string)", &[json!([]), json!(["a", "b"])]),
        ("$bytes", &[json!(""), json!("AP8="), json!("aGVsbG8=")]),
        ("(list (list u8))", &[json!([]), json!(["", "AA=="])]),
        ("(tuple string u8)", &[json!(["a", 1])]),
        ("$maybe", &[json!(null), json!("a")]),
        ("$twice", &[json!(null), json!({"some": null}), json!({"some": "a"})]),
        (
            "$thrice",
            &[
                json!(null),
                json!({"some": null}),
                json!({"some": {"some": null}}),
                json!({"some": {"some": "a"}}),
            ],
        ),
        ("(result string (error u8))", &[json!({"ok": "a"}), json!({"err": 1})]),
        ("(result)", &[json!({"ok": null}), json!({"err": null})]),
        ("(list $maybe-result)", &[json!([null, {"ok": 1}, {"err": "red"}])]),
        (
            "(tuple $point $shape $style (option $point))",
            &[json!([{"x": 1, "label": "é"}, {"tag": "dot"}, ["tall"], {"x": 2, "label": null}])],
        ),
    ]);
}

/// Asserts that values are the same after conversion from JSON and back, and fit the schema that is
/// derived from their type.
fn assert_converted_without_loss(rows: &[(&str, &[Value])]) {
    for (name, values) in rows {
        let (bytes, ty) = of(name);
        // The outermost result of a function is how it ends, not a value.
        let is_result = name.starts_with("(result");
        let tool =
            typed::derive(&bytes, "x", &typed::Beside::default()).unwrap().manifest.tools.remove(0);
        let input = Schema::compile((*tool.input).clone()).unwrap();
        let output = Schema::compile((*tool.output).clone()).unwrap();
        for json in *values {
            assert_eq!(input.problems(&json!({ "it": json }), ""), [], "{name}: {json}");
            let value =
                from_json(json, &ty).unwrap_or_else(|error| panic!("{name}: {json}{error}"));
            assert_eq!(&to_json(&value, &ty).unwrap(), json, "{name}");
            let again = from_json(&to_json(&value, &ty).unwrap(), &ty).unwrap();
            assert_eq!(again, value, "{name}: {json}");
            if !is_result {
                assert_eq!(output.problems(&json!({ "result": json }), ""), [], "{name}: {json}");
            }
        }
    }
}

#[test]
fn the_schema_and_the_conversion_refuse_other_values() {
    let rows: &[(&str, &[Value])] = &[
        ("bool", &[json!(1), json!("true"), json!(null)]),
        ("s8", &[json!(128), json!(-129), json!(1.5), json!("1")]),
        ("u8", &[json!(-1), json!(256)]),
        ("u32", &[json!(4_294_967_296_u64), json!(-1)]),
        ("s64", &[json!(9_223_372_036_854_775_808_u64), json!(1e300)]),
        ("u64", &[json!(-1), json!(1e300)]),
        ("f32", &[json!(1e39), json!(-1e39), json!("NaN")]),
        ("f64", &[json!("1"), json!(null)]),
        ("char", &[json!(""), json!("ab"), json!(1)]),
        ("string", &[json!(1), json!(null), json!(["a"])]),
        ("$point", &[json!({}), json!({"label": "a"}), json!({"x": 1, "y": 1}), json!([1, null])]),
        (
            "$shape",
            &[
                json!("dot"),
                json!({"tag": "square"}),
                json!({"tag": "dot", "value": 1}),
                json!({"tag": "circle"}),
                json!({"tag": "circle", "value": "1"}),
            ],
        ),
        ("$color", &[json!("blue"), json!(0)]),
        ("$style", &[json!(["thin"]), json!("bold"), json!([1])]),
        ("(list string)", &[json!("a"), json!([1]), json!({})]),
        ("$bytes", &[json!([1, 2]), json!(1)]),
        ("(tuple string u8)", &[json!(["a"]), json!(["a", 1, 2]), json!([1, "a"])]),
        ("$maybe", &[json!(1), json!({"some": "a"})]),
        ("$twice", &[json!("a"), json!({}), json!({"some": 1})]),
        (
            "(result string (error u8))",
            &[json!("a"), json!({}), json!({"ok": "a", "err": 1}), json!({"err": "a"})],
        ),
        ("(result)", &[json!(null), json!({"ok": 1})]),
    ];
    for (name, values) in rows {
        let (bytes, ty) = of(name);
        let tool =
            typed::derive(&bytes, "x", &typed::Beside::default()).unwrap().manifest.tools.remove(0);
        let input = Schema::compile((*tool.input).clone()).unwrap();
        for json in *values {
            assert_ne!(input.problems(&json!({ "it": json }), ""), [], "{name}: {json}");
            assert!(from_json(json, &ty).is_err(), "{name}: {json}");
        }
    }
    // Only the conversion detects these.
    let (_, bytes) = of("$bytes");
    for text in ["A", "AA", "AB==", "A===", "AA==\n", "-_8="] {
        let error = from_json(&json!(text), &bytes).unwrap_err().to_string();
        assert!(error.contains("expected bytes as base64"), "{text}: {error}");
    }
}

#[test]
fn integers_are_accepted_in_any_notation() {
    let (_, ty) = of("u64");
    for (text, wanted) in [
        ("1", Some(1)),
        ("1.0", Some(1)),
        ("1e3", Some(1000)),
        ("-0.0", Some(0)),
        ("9007199254740993", Some(9_007_199_254_740_993)),
        ("1.5", None),
        ("1e17", None),
    ] {
        let json: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_json(&json, &ty).ok(), wanted.map(Val::U64), "{text}");
    }
}

#[test]
fn errors_have_a_pointer_and_values_a_limit() {
    let (_, ty) = of("(list $shape)");
    let wrong = json!([{"tag": "dot"}, {"tag": "path", "value": [{"x": 1}, {"x": "1"}]}]);
    let mismatch = from_json(&wrong, &ty).unwrap_err();
    assert_eq!(mismatch.to_string(), "/1/value/1/x: expected an integer");
    assert!(!mismatch.is_too_much);
    let (_, bytes) = of("$bytes");
    let large = json!(STANDARD.encode(vec![0; MAX_VALUES + 1]));
    assert!(from_json(&large, &bytes).unwrap_err().is_too_much);
    let bytes_of = |count| Val::List(vec![Val::U8(0); count]);
    assert!(to_json(&bytes_of(MAX_VALUES), &bytes).unwrap_err().is_too_much);
    assert!(to_json(&bytes_of(MAX_VALUES - 1), &bytes).is_ok());
    // Comparing names has a cost as well.
    let cases: String = (0..8_000).map(|n| format!("(case \"c{n}\" u8)")).collect();
    let names: String = (0..8_000).map(|n| format!(" \"n{n}\"")).collect();
    let text = format!(
        "(component (type $v' (variant {cases})) (import \"v\" (type $v (eq $v')))
           (type $e' (enum {names})) (import \"e\" (type $e (eq $e')))
           (import \"i\" (func (param \"v\" (list $v)) (param \"e\" (list $e)))))"
    );
    let types = parameters(&text);
    let (variants, enums) = (&types[0], &types[1]);
    let last = json!({"tag": "c7999", "value": 1});
    for (count, is_fine) in [(1_000, true), (2_000, false)] {
        let found = from_json(&json!(vec![&last; count]), variants);
        assert_eq!(found.is_ok(), is_fine);
        assert_eq!(from_json(&json!(vec!["n7999"; count]), enums).is_ok(), is_fine);
        let value = Val::Variant("c7999".to_owned(), Some(Box::new(Val::U8(1))));
        assert_eq!(to_json(&Val::List(vec![value; count]), variants).is_ok(), is_fine);
    }
    assert!(arguments(&json!([]), std::iter::empty()).is_err());
    let (_, point) = of("$point");
    let error = from_json(&json!({"x": 1, "z": 1}), &point).unwrap_err();
    assert_eq!(error.to_string(), "/z: there is no such field");
    assert_eq!(
        arguments(&json!({}), [("it", of("$maybe").1)].into_iter()).unwrap(),
        [Val::Option(None)]
    );
}

#[test]
fn values_without_json_are_refused() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (_, ty) = of("(list f64)");
        let mismatch =
            to_json(&Val::List(vec![Val::Float64(0.0), Val::Float64(value)]), &ty).unwrap_err();
        assert!(
            mismatch.to_string().starts_with("/1: ")
                && mismatch.to_string().contains("no number that JSON has")
        );
        let (_, ty) = of("f32");
        assert!(to_json(&Val::Float32(value as f32), &ty).is_err());
    }
}

/// Names are copied for each value, and types are expanded: both are limited.
#[test]
fn expensive_types_are_refused() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let doubled: String =
        (1..12).map(|n| format!("(type $t{n} (tuple $t{} $t{}))", n - 1, n - 1)).collect();
    for (types, ty, wanted) in [
        (
            format!("(type $r' (record (field \"{long}\" u8)))"),
            "$r",
            "names of more than 100 characters",
        ),
        (
            format!("(type $r' (variant (case \"{long}\")))"),
            "(list $r)",
            "names of more than 100 characters",
        ),
        (
            format!("(type $r' (enum \"{long}\"))"),
            "(option $r)",
            "names of more than 100 characters",
        ),
        (
            format!("(type $r' (flags \"{long}\"))"),
            "(result $r)",
            "names of more than 100 characters",
        ),
        (
            format!("(type $t0 (tuple u8)) {doubled} (type $r' (record (field \"a\" $t11)))"),
            "$r",
            "come to more than 2000",
        ),
    ] {
        let text = format!(
            "(component {types} (import \"r\" (type $r (eq $r')))
               (type $it {ty}) (import \"i\" (func (param \"it\" $it))))"
        );
        let text =
            if ty == "$r" { text.replace("(type $it $r)", "").replace("$it", "$r") } else { text };
        assert!(check(parameters(&text).into_iter()).unwrap_err().contains(wanted), "{ty}");
        let derived =
            text.replace("(func (param", "(func $f (param").trim_end_matches(')').to_owned();
        let derived = format!("{derived}))) (export \"f\" (func $f)))");
        let derived = wat::parse_str(&derived).unwrap_or_else(|error| panic!("{error}: {derived}"));
        let error =
            typed::derive(&derived, "x", &typed::Beside::default()).unwrap_err().to_string();
        assert!(error.contains("no function that it exports can be a tool"), "{error}");
    }
    assert_eq!(check([of("$shape").1, of("$point").1].into_iter()), Ok(()));
}
