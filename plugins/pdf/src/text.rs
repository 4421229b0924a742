//! The text of a page, in the order in which it is drawn.
//!
//! Only text is interpreted: fonts tell the characters and how wide they are, positions tell where words
//! and lines end. Nothing is drawn and no image is decoded.

use std::sync::Arc;

use hayro_font::hayro_cmap::{BfString, load_embedded};
use hayro_font::kurbo::{Affine, Point};
use hayro_font::{CMapResolverFn, Font, FontCache, FontData, FontGlyph, FontResolverFn};
use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::dict::keys::{FORM, MATRIX, RESOURCES, SUBTYPE};
use hayro_syntax::object::{Array, Dict, Name, Number, Object, Stream};
use hayro_syntax::page::{Page, Resources};

/// The maximum number of operators and characters of a page that are interpreted.
const MAX_STEPS: usize = 5_000_000;

/// The maximum number of forms inside of each other.
const MAX_FORM_DEPTH: usize = 12;

/// The maximum number of saved states.
const MAX_SAVED_STATES: usize = 256;

/// A font file without any glyph, for fonts that a document names but does not contain.
const NO_GLYPHS: &[u8] = b"\0\x01\0\0\0\0\0\0\0\0\0\0";

/// The size of a font's unit, in thousandths of text space.
const UNITS_PER_EM: f64 = 1000.0;

/// The part of the graphics state that text depends on.
#[derive(Clone)]
struct State<'a> {
    /// The page's coordinates of the current ones.
    transform: Affine,
    font: Option<Font<'a>>,
    font_size: f64,
    character_space: f64,
    word_space: f64,
    /// The horizontal scale.
    scale: f64,
    leading: f64,
}

impl Default for State<'_> {
    fn default() -> Self {
        Self {
            transform: Affine::IDENTITY,
            font: None,
            font_size: 1.0,
            character_space: 0.0,
            word_space: 0.0,
            scale: 1.0,
            leading: 0.0,
        }
    }
}

/// The text and line matrices of a text object.
#[derive(Clone, Copy)]
struct Matrices {
    text: Affine,
    line: Affine,
}

impl Matrices {
    const START: Self = Self { text: Affine::IDENTITY, line: Affine::IDENTITY };

    fn set(&mut self, matrix: Affine) {
        *self = Self { text: matrix, line: matrix };
    }

    fn next_line(&mut self, x: f64, y: f64) {
        self.set(self.line * Affine::translate((x, y)));
    }
}

/// Where the last character ended.
#[derive(Clone, Copy)]
struct Last {
    end: Point,
    /// The height of the font, on the page.
    height: f64,
}

/// Reads pages of one document.
pub struct Reader<'a> {
    fonts: FontCache<'a>,
    font_resolver: FontResolverFn,
    cmap_resolver: CMapResolverFn,
    text: String,
    last: Option<Last>,
    steps: usize,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader.
    pub fn new() -> Self {
        let no_glyphs: FontData = Arc::new(NO_GLYPHS);
        Self {
            fonts: FontCache::new(),
            font_resolver: Arc::new(move |_| Some((Arc::clone(&no_glyphs), 0))),
            cmap_resolver: Arc::new(load_embedded),
            text: String::new(),
            last: None,
            steps: 0,
        }
    }

    /// Returns the text of a page.
    ///
    /// # Errors
    /// The page has too many operators and characters.
    pub fn page(&mut self, page: &Page<'a>) -> Result<String, String> {
        (self.steps, self.last) = (0, None);
        if let Some(content) = page.page_stream() {
            self.interpret(content, page.resources(), State::default(), 0);
        }
        let text = std::mem::take(&mut self.text);
        if self.steps > MAX_STEPS {
            return Err(format!("it has more than {MAX_STEPS} operators and characters"));
        }
        Ok(text)
    }

    /// Counts a step; returns whether there may be another one.
    fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MAX_STEPS
    }

    /// Interprets the content of a page or a form.
    fn interpret(
        &mut self,
        content: &[u8],
        resources: &Resources<'a>,
        mut state: State<'a>,
        depth: usize,
    ) {
        let mut saved = Vec::new();
        let mut matrices = Matrices::START;
        let mut instructions = TypedIter::new(content);
        while let Some(instruction) = instructions.next() {
            if !self.step() {
                return;
            }
            match instruction {
                TypedInstruction::SaveState(_) if saved.len() < MAX_SAVED_STATES => {
                    saved.push(state.clone());
                }
                TypedInstruction::RestoreState(_) => state = saved.pop().unwrap_or(state),
                TypedInstruction::Transform(to) => {
                    state.transform *= affine([to.0, to.1, to.2, to.3, to.4, to.5]);
                }
                TypedInstruction::XObject(name) if depth < MAX_FORM_DEPTH => {
                    if let Some(form) = resources.get_x_object(name.0) {
                        self.form(&form, resources, &state, depth + 1);
                    }
                }
                TypedInstruction::TextFont(font) => {
                    let dict = resources.get_font(font.0);
                    state.font = dict.and_then(|dict| {
                        self.fonts.font(&dict, &self.font_resolver, &self.cmap_resolver)
                    });
                    state.font_size = font.1.as_f64();
                }
                instruction => self.text_instruction(&instruction, &mut state, &mut matrices),
            }
        }
    }

    /// Interprets a form: content that is drawn as a whole.
    fn form(
        &mut self,
        form: &Stream<'a>,
        resources: &Resources<'a>,
        state: &State<'a>,
        depth: usize,
    ) {
        let dict = form.dict();
        if dict.get::<Name<'_>>(SUBTYPE).is_none_or(|kind| *kind != *FORM) {
            return;
        }
        let Ok(content) = form.decoded() else { return };
        let own = dict.get::<Dict<'a>>(RESOURCES).map(Resources::new);
        let mut state = state.clone();
        state.transform *= dict.get::<[f64; 6]>(MATRIX).map_or(Affine::IDENTITY, Affine::new);
        self.interpret(&content, own.as_ref().unwrap_or(resources), state, depth);
    }

    fn text_instruction(
        &mut self,
        instruction: &TypedInstruction<'_, '_>,
        state: &mut State<'a>,
        matrices: &mut Matrices,
    ) {
        match instruction {
            TypedInstruction::BeginText(_) => *matrices = Matrices::START,
            TypedInstruction::CharacterSpacing(space) => state.character_space = space.0.as_f64(),
            TypedInstruction::WordSpacing(space) => state.word_space = space.0.as_f64(),
            TypedInstruction::HorizontalScaling(scale) => state.scale = scale.0.as_f64() / 100.0,
            TypedInstruction::TextLeading(leading) => state.leading = leading.0.as_f64(),
            TypedInstruction::NextLine(by) => matrices.next_line(by.0.as_f64(), by.1.as_f64()),
            TypedInstruction::NextLineAndSetLeading(by) => {
                state.leading = -by.1.as_f64();
                matrices.next_line(by.0.as_f64(), by.1.as_f64());
            }
            TypedInstruction::SetTextMatrix(to) => {
                matrices.set(affine([to.0, to.1, to.2, to.3, to.4, to.5]));
            }
            TypedInstruction::NextLineUsingLeading(_) => matrices.next_line(0.0, -state.leading),
            TypedInstruction::ShowText(text) => self.show(text.0.as_bytes(), state, matrices),
            TypedInstruction::NextLineAndShowText(text) => {
                matrices.next_line(0.0, -state.leading);
                self.show(text.0.as_bytes(), state, matrices);
            }
            TypedInstruction::ShowTextWithParameters(text) => {
                (state.word_space, state.character_space) = (text.0.as_f64(), text.1.as_f64());
                matrices.next_line(0.0, -state.leading);
                self.show(text.2.as_bytes(), state, matrices);
            }
            TypedInstruction::ShowTexts(texts) => self.show_all(texts.0, state, matrices),
            _ => {}
        }
    }

    /// Shows texts with moves between them.
    fn show_all(&mut self, texts: &Array<'_>, state: &State<'a>, matrices: &mut Matrices) {
        for item in texts.iter::<Object<'_>>() {
            if !self.step() {
                return;
            }
            match item {
                Object::String(text) => self.show(text.as_bytes(), state, matrices),
                Object::Number(by) => {
                    let by = -by.as_f64() / UNITS_PER_EM * state.font_size;
                    matrices.text *= advance(state, by);
                }
                _ => {}
            }
        }
    }

    fn show(&mut self, bytes: &[u8], state: &State<'a>, matrices: &mut Matrices) {
        let Some(font) = &state.font else { return };
        let mut at = 0;
        while at < bytes.len() && self.step() {
            let (code, length) = font.read_code(bytes, at);
            at += length.max(1);
            let units = font.code_advance(code);
            let units = if font.is_horizontal() { units.x } else { units.y };
            let width = units / UNITS_PER_EM * state.font_size;
            let word_space = if code == 32 && length == 1 { state.word_space } else { 0.0 };
            let space = state.character_space + word_space;
            let characters = match font.glyph(font.map_code(code), code) {
                FontGlyph::Outline(glyph) => glyph.as_unicode(),
                FontGlyph::Type3(glyph) => glyph.as_unicode(),
            };
            let from = state.transform * matrices.text;
            let to = from * advance(state, width);
            self.place(from, to, state.font_size);
            match characters {
                Some(BfString::Char(character)) => self.push(character),
                Some(BfString::String(characters)) => characters.chars().for_each(|c| self.push(c)),
                None => self.push(char::REPLACEMENT_CHARACTER),
            }
            matrices.text *= advance(state, width + space);
        }
    }

    fn push(&mut self, character: char) {
        self.text.push(if character.is_control() { ' ' } else { character });
    }

    /// Ends a word or a line where the next character is not beside the last one.
    fn place(&mut self, from: Affine, to: Affine, font_size: f64) {
        let (start, end) = (from * Point::ZERO, to * Point::ZERO);
        let height = ((from * Point::new(0.0, font_size)) - start).hypot();
        let along = (from * Point::new(1.0, 0.0)) - start;
        if let Some(last) = self.last.filter(|_| along.hypot() > 0.0) {
            let along = along / along.hypot();
            let gap = start - last.end;
            let (forward, aside) = (gap.dot(along), gap.cross(along).abs());
            let height = height.max(last.height);
            if aside > height * 0.6 || forward < -height * 2.0 {
                self.text.push_str(if aside > height * 1.9 { "\n\n" } else { "\n" });
            } else if forward > height * 0.13 && !self.text.ends_with([' ', '\n']) {
                self.text.push(' ');
            }
        }
        self.last = Some(Last { end, height });
    }
}

/// Returns the move by a distance in the direction of a font's writing.
fn advance(state: &State<'_>, by: f64) -> Affine {
    match state.font.as_ref().is_none_or(Font::is_horizontal) {
        true => Affine::translate((by * state.scale, 0.0)),
        false => Affine::translate((0.0, by)),
    }
}

fn affine(numbers: [Number; 6]) -> Affine {
    Affine::new(numbers.map(|number| number.as_f64()))
}
