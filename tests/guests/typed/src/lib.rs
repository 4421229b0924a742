//! A component as people write it for other hosts: it exports functions with their own types, and
//! reads files with its language's ordinary functions.
#![cfg(target_family = "wasm")]
#![expect(clippy::disallowed_methods, reason = "which files there are is the host's decision")]

use std::fs;

#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "shapes" });
    use super::Shapes;
    export!(Shapes);
}

use bindings::exports::example::shapes::geometry::{
    AreaError, Canvas, Drawing, Guest as Geometry, GuestCanvas, Shape,
};

struct Shapes;

struct Paper;

impl GuestCanvas for Paper {
    fn draw(&self, _: Shape) {}
}

impl Geometry for Shapes {
    type Canvas = Paper;

    fn echo(drawing: Drawing) -> Drawing {
        drawing
    }

    fn area(shape: Shape) -> Result<f64, AreaError> {
        match shape {
            Shape::Circle(radius) if radius < 0.0 => Err(AreaError::Negative(radius)),
            Shape::Circle(radius) => Ok(radius * radius * 3.0),
            Shape::Dot | Shape::Path(_) => Err(AreaError::NoArea),
        }
    }

    fn open() -> Canvas {
        Canvas::new(Paper)
    }
}

impl bindings::Guest for Shapes {
    fn get_weather(city: String) -> Result<String, String> {
        match city.as_str() {
            "" => Err("no city".to_owned()),
            "crash" => std::process::abort(),
            city => Ok(format!("It rains in {city}.")),
        }
    }

    fn read_note(path: String) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn write_note(path: String, text: String) -> Result<(), String> {
        fs::write(path, text).map_err(|error| error.to_string())
    }

    fn divide(dividend: f64, divisor: f64) -> f64 {
        dividend / divisor
    }

    fn spin() {
        loop {
            std::hint::black_box(());
        }
    }

    fn flood(count: u32) -> Vec<String> {
        (0..count).map(|_| "x".repeat(1000)).collect()
    }
}
