//! Facts about the file system that a plugin sees, as scripts with the result of each step. They
//! include the checks of wasi-testsuite and of wasmtime's own tests of `wasi:filesystem`.

use super::native::Native;
use super::step::unescaped;
use super::{parse, play, results, tree, trial};
use crate::trial::Trial;

use cofferdam_core::outcome::Outcome;
use serde_json::json;

/// A script: the steps that create the initial files, then steps with `=> ` and the expected
/// result, and `| ` and Linux's result if this host deviates on purpose.
struct Scenario {
    name: &'static str,
    before: &'static str,
    steps: &'static str,
}

/// A file below two directories.
const NESTED: &str = "
    mkdir dir
    mkdir dir/nested
    open f dir/nested/file wc
    write f 0 content
    close f
";

/// Two files, two empty directories and one that is not empty.
const MIXED: &str = "
    open f a wc
    write f 0 of_a
    open f b wc
    write f 0 of_b
    close f
    mkdir d
    mkdir e
    mkdir full
    open f full/x wc
    write f 0 of_x
    close f
";

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "paths lead through dots, slashes and directories that exist",
        before: NESTED,
        steps: r"
            open f dir/.//nested/../../dir/nested/../nested///./file r => ok
            read f 0 100 => content
            stat dir/../dir/nested/file => file 7
            stat dir/nested/ => directory
            stat dir/nested/. => directory
            stat dir/nested/.. => directory
            stat ./dir => directory
            stat . => directory
            open r . rd => ok
            open r ./// rd => ok
            open r dir/.. rd => ok
            stat r>dir/nested/file => file 7
            open d dir r => ok
            stat d>nested/file => file 7
            stat d>../dir => directory
            stat dir/none/../nested/file => no-entry
            stat dir/nested/file/../file => not-directory
            stat none => no-entry
            stat none/ => no-entry
            stat none/none => no-entry
            stat \e => no-entry
            open r \e r => no-entry
            mkdir \e => no-entry
            unlink \e => no-entry
        ",
    },
    Scenario {
        name: "a slash at the end wants a directory",
        before: NESTED,
        steps: "
            open f dir/nested/file/ r => not-directory
            open f dir/nested/file/. r => not-directory
            open f dir/nested/file/ w => not-directory
            stat dir/nested/file/ => not-directory
            lstat dir/nested/file/ => not-directory
            unlink dir/nested/file/ => not-directory
            rename dir/nested/file/ x => not-directory
            rename dir/nested/file x/ => not-directory
            open f dir/new/ wc => is-directory
            open f none/ r => no-entry
            mkdir dir/new/ => ok
            rename dir/new/ dir/newer/ => ok
            rmdir dir/newer/ => ok
            symlink target new/ => no-entry
            list dir/nested => file:file
        ",
    },
    Scenario {
        name: "dots at the end name nothing that can be made or taken away",
        before: NESTED,
        steps: "
            mkdir . => exist
            mkdir dir/.. => exist
            mkdir dir/nested/. => exist
            rmdir . => invalid
            rmdir dir/nested/. => invalid
            rmdir dir/nested/.. => not-empty
            unlink . => is-directory
            unlink dir/.. => is-directory
            rename . x => busy
            rename dir/nested/. x => busy
            rename dir/nested/.. x => busy
            rename dir/nested . => busy
            rename dir/nested dir/.. => busy
            list dir/nested => file:file
        ",
    },
    Scenario {
        name: "paths that leave are not permitted",
        before: NESTED,
        steps: r"
            open f .. rd => not-permitted
            open f dir/../.. rd => not-permitted
            open f dir/../../x rwc => not-permitted
            open f /dir r => not-permitted
            open f / rd => not-permitted
            open d dir r => ok
            open f d>../.. rd => not-permitted
            open f d>../dir/nested/file r => ok | native not-permitted
            stat dir\0 => not-permitted | native invalid
            mkdir dir/\0 => not-permitted | native invalid
        ",
    },
    Scenario {
        name: "links are followed where they lead",
        before: r"
            mkdir dir
            open f dir/file wc
            write f 0 content
            close f
            symlink dir l
            symlink dir/file lf
            symlink ../dir/file dir/back
            symlink ./l/../lf far
        ",
        steps: "
            stat l => directory
            lstat l => link 3
            lstat l/ => directory
            stat l/file => file 7
            lstat lf => link 8
            stat lf => file 7
            stat lf/ => not-directory
            lstat lf/ => not-directory
            stat far => file 7
            stat l/back => file 7
            readlink dir/back => ../dir/file
            readlink l => dir
            readlink l/ => invalid
            readlink dir => invalid
            readlink dir/file => invalid
            readlink none => no-entry
            open f l rd => ok
            open f l rdn => loop | native not-directory
            open f l rn => loop
            open f lf rn => loop
            open f lf wn => loop
            open f lf r => ok
            read f 0 3 => con
            open f lf wt => ok
            write f 0 changed => 7
            close f => ok
            lstat lf => link 8
            open f dir/file r => ok
            read f 0 100 => changed
            mkdir l/new => ok
            list dir => back:link,file:file,new:directory
            mkdir l => exist
            mkdir l/ => exist
            rmdir l => not-directory
            rmdir l/ => not-empty | native not-directory
            unlink l/ => is-directory | native not-directory
            unlink l => ok
            stat l/file => no-entry
            list . => dir:directory,far:link,lf:link
        ",
    },
    Scenario {
        name: "links in a circle end",
        before: "
            symlink b a
            symlink a b
            symlink self self
            symlink self/x below
        ",
        steps: "
            stat a => loop
            lstat a => link 1
            open f a r => loop
            open f a wc => loop
            open f a wct => loop
            open f self rn => loop
            open f self/x r => loop
            open f below r => loop
            list self => loop
            mkdir self => exist
            mkdir self/x => loop
            unlink self/x => loop
            rename self/x y => loop
            open f self wcx => exist
            readlink self => self
            rename a c => ok
            stat b => no-entry
            unlink self => ok
            stat below => no-entry
        ",
    },
    Scenario {
        name: "a link to nothing is something",
        before: "
            symlink target dangling
            symlink none/target deep
        ",
        steps: "
            stat dangling => no-entry
            lstat dangling => link 6
            readlink dangling => target
            open f dangling r => no-entry
            open f dangling w => no-entry
            open f dangling rn => loop
            open f dangling wcx => exist
            mkdir dangling => exist
            symlink other dangling => exist
            rmdir dangling => not-directory
            open f deep wc => no-entry
            open f dangling wc => ok
            write f 0 made => 4
            close f => ok
            lstat dangling => link 6
            stat target => file 4
            rename dangling moved => ok
            stat moved => file 4
            unlink moved => ok
            stat target => file 4
            unlink deep => ok
            unlink dangling => no-entry
        ",
    },
    Scenario {
        name: "opening does what its flags say",
        before: MIXED,
        steps: "
            open f none r => no-entry
            open f none w => no-entry
            open f none wt => no-entry
            open f none/new wc => no-entry
            open f a/new wc => not-directory
            open f a rcx => exist
            open f a wcx => exist
            open f d wcx => exist
            open f a rd => not-directory
            open f d w => is-directory
            open f d rw => is-directory
            open f d rc => is-directory
            open f d wc => is-directory
            open f d rt => is-directory
            open f d r => ok
            open f none rcd => invalid
            open f new wcx => ok
            fstat f => file 0
            open f new wcx => exist
            open f a rwc => ok
            read f 0 100 => of_a
            open f a wc => ok
            fstat f => file 4
            open f a wct => ok
            fstat f => file 0
            open f b rt => ok
            fstat f => file 0
            open f full/x rw => ok
            write f 2 -- => 2
            read f 0 100 => of--
            close f => ok
            stat b => file 0
        ",
    },
    Scenario {
        name: "a handle does only what it was opened for",
        before: MIXED,
        steps: "
            open r a r => ok
            write r 0 x => not-permitted | native bad-descriptor
            append r x => not-permitted | native bad-descriptor
            size r 0 => invalid
            open w b w => ok
            read w 0 1 => bad-descriptor
            write w 0 x => 1
            stat a => file 4
            open d full r => ok
            read d 0 1 => bad-descriptor | native is-directory
            write d 0 x => is-directory | native bad-descriptor
            size d 0 => is-directory | native invalid
            open f a r => ok
            open g f>x r => not-directory
            entries l f => not-directory
        ",
    },
    Scenario {
        name: "files take the places of files",
        before: MIXED,
        steps: "
            rename a b => ok
            stat a => no-entry
            open f b r => ok
            read f 0 100 => of_a
            rename b b => ok
            rename b ./b => ok
            rename b new => ok
            rename new full/x => ok
            open f full/x r => ok
            read f 0 100 => of_a
            list . => d:directory,e:directory,full:directory
            rename none b => no-entry
            rename full/x none/x => no-entry
            rename full/x full/x/y => not-directory
            rename none none => no-entry
        ",
    },
    Scenario {
        name: "files and directories do not take each other's places",
        before: MIXED,
        steps: "
            rename a d => is-directory
            rename a full => is-directory
            rename d a => not-directory
            rename full a => not-directory
            rename full/x d => is-directory
            list . => a:file,b:file,d:directory,e:directory,full:directory
        ",
    },
    Scenario {
        name: "directories take the places of empty ones",
        before: MIXED,
        steps: "
            rename d e => ok
            stat d => no-entry
            rename e full => not-empty
            rename full e => ok
            list e => x:file
            rename e e => ok
            rename e e/sub => invalid
            rename e e/x/sub => not-directory
            rename e new => ok
            open f new/x r => ok
            read f 0 100 => of_x
            stat e => no-entry
            stat full/x => no-entry
            mkdir e => ok
            list e => \\e
            list . => a:file,b:file,e:directory,new:directory
        ",
    },
    Scenario {
        name: "links take and leave places as files do",
        before: "
            open f a wc
            write f 0 of_a
            close f
            mkdir d
            symlink a l
            symlink d ld
        ",
        steps: "
            rename ld d => is-directory
            rename d ld => not-directory
            rename ld l => ok
            readlink l => d
            rename a l => ok
            lstat l => file 4
            symlink d ld => ok
            rename l ld => ok
            lstat ld => file 4
            list . => d:directory,ld:file
        ",
    },
    Scenario {
        name: "open handles stay with what they are when a tree moves",
        before: "
            mkdir t
            mkdir t/sub
            open f t/a wc
            write f 0 of_a
            open f t/sub/b wc
            write f 0 of_b
            close f
            symlink a t/l
        ",
        steps: "
            open t t rd => ok
            open s t/sub rd => ok
            open f t/a rw => ok
            open r t/sub/b r => ok
            rename t u => ok
            stat t => no-entry
            read f 0 100 => of_a
            read r 0 100 => of_b
            write f 0 OF => 2
            open g u/a r => ok
            read g 0 100 => OF_a
            stat t>a => file 4
            stat s>b => file 4
            stat s>../a => file 4
            list t>. => a:file,l:link,sub:directory
            open n s>new wc => ok
            list u/sub => b:file,new:file
            mkdir t => ok
            list t => \\e
            rename u/sub t/sub => ok
            list s>. => b:file,new:file
            stat t/sub/b => file 4
            list u => a:file,l:link
        ",
    },
    Scenario {
        name: "a listing is what the tree is now",
        before: "
            mkdir m
            open f m/kept wc
            open f m/gone wc
            open f m/moved wc
            close f
            mkdir m/sub
        ",
        steps: "
            unlink m/gone => ok
            open f m/new wc => ok
            symlink kept m/l => ok
            mkdir m/d => ok
            rename m/moved m/d/moved => ok
            list m => d:directory,kept:file,l:link,new:file,sub:directory
            list m/d => moved:file
            unlink m/new => ok
            rmdir m/sub => ok
            open f m/gone wc => ok
            list m => d:directory,gone:file,kept:file,l:link
            list m/kept => not-directory
            list m/none => no-entry
            list m/l => not-directory
        ",
    },
    Scenario {
        name: "large directories move whole",
        before: "
            mkdir big
            mkdir big/below
            fill big 300
            fill big/below 100
        ",
        steps: "
            unlink big/7 => ok
            rename big bigger => ok
            count bigger => 300
            count bigger/below => 100
            stat bigger/299 => file 0
            stat bigger/7 => no-entry
            stat big => no-entry
        ",
    },
    Scenario {
        name: "a listing that was begun is not disturbed",
        before: "
            mkdir m
            open f m/a wc
            open f m/b wc
            open f m/c wc
        ",
        steps: "
            open d m rd => ok
            entries l d => ok
            unlink m/a => ok
            rename m/b m/z => ok
            open f m/new wc => ok
            drain l => a:file,b:file,c:file
            list m => c:file,new:file,z:file
        ",
    },
    Scenario {
        name: "directories give way to files and come back",
        before: "
            mkdir d
            open f d/x wc
            write f 0 of_x
            close f
        ",
        steps: "
            rmdir d => not-empty
            unlink d => is-directory
            rmdir d/x => not-directory
            unlink d/x => ok
            unlink d/x => no-entry
            rmdir d => ok
            rmdir d => no-entry
            open f d wc => ok
            write f 0 file => 4
            close f => ok
            stat d => file 4
            stat d/x => not-directory
            mkdir d => exist
            mkdir d/x => not-directory
            unlink d => ok
            mkdir d => ok
            stat d/x => no-entry
            list d => \\e
            symlink none d/x => ok
            list d => x:link
        ",
    },
    Scenario {
        name: "a file gives way to a directory",
        before: MIXED,
        steps: "
            unlink a => ok
            mkdir a => ok
            open f a/below wc => ok
            write f 0 deep => 4
            close f => ok
            rename b a/b => ok
            list a => b:file,below:file
            rename a full/a => ok
            stat full/a/below => file 4
            rename full a => ok
            stat a/a/b => file 4
        ",
    },
    Scenario {
        name: "files have holes, ends and new ends",
        before: "
            open f s wc
            write f 0 0123456789
            close f
        ",
        steps: r"
            open f s rw => ok
            read f 10 10 => \e
            read f 100 10 => \e
            read f 8 10 => 89
            read f 0 0 => \e
            write f 12 end => 3
            fstat f => file 15
            read f 9 100 => 9\0\0end
            size f 4 => ok
            read f 0 100 => 0123
            size f 6 => ok
            read f 0 100 => 0123\0\0
            append f tail => ok
            read f 0 100 => 0123\0\0tail
            write f 1 -- => 2
            append f - => ok
            read f 0 100 => 0--3\0\0tail-
            write f 1000 far => 3
            fstat f => file 1003
            size f 0 => ok
            fstat f => file 0
            read f 0 10 => \e
            stat s => file 0
        ",
    },
    Scenario {
        name: "two handles are of one file",
        before: MIXED,
        steps: "
            open f a rw => ok
            open g a rw => ok
            write f 0 one => 3
            read g 0 100 => onea
            append g two => ok
            read f 0 100 => oneatwo
            size f 3 => ok
            fstat g => file 3
            write g 3 three => 5
            read f 0 100 => onethree
            same f g => true
            open h b rw => ok
            same f h => false
            same-hash a a => true
            same-hash a b => false
            same-hash a full/../a => true
            same-hash d d => true
            same-hash d e => false
        ",
    },
    Scenario {
        name: "a listing says what each entry is",
        before: MIXED,
        steps: "
            inodes full => 1
            open f full/new wc => ok
            close f => ok
            inodes full => 2
            unlink full/new => ok
            inodes full => 1
        ",
    },
    Scenario {
        name: "a removed file lives as long as its handle",
        before: MIXED,
        steps: "
            open f a rw => ok
            open r b r => ok
            unlink a => ok
            unlink b => ok
            read f 0 100 => of_a
            write f 0 OF => 2
            read f 0 100 => OF_a
            fstat f => file 4
            read r 0 100 => of_b
            stat a => no-entry
            open g a wc => ok
            fstat g => file 0
            same f g => false
            write g 0 new => 3
            set-times a 5 6 => ok
            fset-times f 1 2 => ok
            times a => 5 6
            read f 0 100 => OF_a
            close f => ok
            stat a => file 3
            open d full rd => ok
            unlink full/x => ok
            rmdir full => ok
            open x d>x wc => no-entry
            stat d>x => no-entry
        ",
    },
    Scenario {
        name: "a replaced file lives as long as its handle",
        before: MIXED,
        steps: "
            open f b rw => ok
            rename a b => ok
            read f 0 100 => of_b
            write f 0 lost => 4
            open g b r => ok
            read g 0 100 => of_a
            same f g => false
        ",
    },
    // These access times are in the future, so reading does not update them.
    Scenario {
        name: "times are set as they are told",
        before: "
            open f a wc
            close f
            symlink a l
            set-times a 4000000000 200
            set-times l 4000000000 400
        ",
        steps: "
            times a => 4000000000 200
            times l => 4000000000 400
            set-times a - 500 => ok
            set-times a 600 - => ok
            times a => 600 500
            set-times a - 550 => ok
            times a => 600 550
            set-times l 700 800 => ok
            times l => 700 800
            times a => 600 550
            set-times none 1 2 => no-entry
            open f a rw => ok
            fset-times f 900 1000 => ok
            times a => 900 1000
            set-times a - - => ok
            times a => 900 1000
            mkdir d => ok
            set-times d 11 12 => ok
            times d => 11 12
        ",
    },
    Scenario {
        name: "a renamed file keeps its time",
        before: "
            mkdir d
            open f d/a wc
            write f 0 x
            close f
            set-times d/a 4000000000 200
            symlink a d/l
            set-times d/l 4000000000 400
        ",
        steps: "
            rename d/a d/b => ok
            times d/b => 4000000000 200
            rename d/l l => ok
            times l => 4000000000 400
            rename d e => ok
            times e/b => 4000000000 200
        ",
    },
    Scenario {
        name: "links are made where there is nothing",
        before: MIXED,
        steps: r"
            symlink a l => ok
            symlink a l => exist
            symlink x a => exist
            symlink x d => exist
            symlink x none/l => no-entry
            symlink x a/l => not-directory
            symlink \e l2 => no-entry
            symlink ../a full/up => ok
            stat full/up => file 4
            lstat full/up => link 4
            symlink full/ slash => ok
            stat slash/x => file 4
            stat slash => directory
            readlink slash => full/
        ",
    },
    Scenario {
        name: "no link is made that leaves, and no second name",
        before: MIXED,
        steps: "
            symlink /etc/passwd l => not-permitted | native ok
            symlink ../x m => not-permitted | native ok
            symlink ../../x full/l => not-permitted | native ok
            symlink full/../../x n => not-permitted | native ok
            link a second => not-permitted | native ok
            link none second2 => not-permitted | native no-entry
            list . => a:file,b:file,d:directory,e:directory,full:directory | native a:file,b:file,d:directory,e:directory,full:directory,l:link,m:link,n:link,second:file
        ",
    },
];

/// A step with its expected results here and natively.
struct Wanted {
    step: &'static str,
    here: String,
    native: String,
}

impl Scenario {
    fn before(&self) -> Vec<&'static str> {
        lines(self.before)
    }

    fn wanted(&self) -> Vec<Wanted> {
        let wanted = |line: &'static str| {
            let (step, results) = line.split_once(" => ").unwrap_or_else(|| panic!("{line}"));
            let (here, native) = results.split_once(" | native ").unwrap_or((results, results));
            Wanted { step, here: unescaped(here), native: unescaped(native) }
        };
        lines(self.steps).into_iter().map(wanted).collect()
    }
}

fn lines(text: &'static str) -> Vec<&'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The steps whose results are not as expected.
fn differences<'a>(
    way: &str,
    steps: impl Iterator<Item = (&'a str, &'a str)>,
    results: &[String],
) -> Vec<String> {
    steps
        .zip(results)
        .filter(|((_, wanted), result)| wanted != result)
        .map(|((step, wanted), result)| format!("{way}: {step}: {result:?}, not {wanted:?}"))
        .collect()
}

/// How the guest gets the initial files of a script.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// They are on the disk.
    OnDisk,
    /// They were created by the call itself.
    Staged,
    /// An earlier call of the same transaction has created them.
    StagedBefore,
}

/// Runs a script, and returns the results of its steps and the resulting tree.
pub fn play_as(way: Way, before: &[&str], steps: &[&str]) -> (Vec<String>, Vec<String>) {
    let trial = trial();
    let results = match way {
        Way::OnDisk => {
            Native::new(&trial.place.workspace()).play_all(&parse(before));
            play(&trial, "filesystem.script", steps)
        }
        Way::Staged => {
            let all = play(&trial, "filesystem.script", &[before, steps].concat());
            all[before.len()..].to_vec()
        }
        Way::StagedBefore => staged_before(&trial, before, steps),
    };
    (results, tree(&trial.place.workspace()))
}

fn staged_before(trial: &Trial, before: &[&str], steps: &[&str]) -> Vec<String> {
    let action = |steps: &[&str]| json!({"type": "filesystem.script", "steps": steps});
    let envelope = json!({"actions": [action(before), action(steps)]});
    let outcomes = trial.run_atomic(&envelope);
    match &outcomes[..] {
        [_, Outcome::Executed(output)] => results(output),
        failed => panic!("{failed:?}"),
    }
}

/// All ways in which the guest plays a script.
pub const WAYS: [Way; 3] = [Way::OnDisk, Way::Staged, Way::StagedBefore];

#[test]
fn scenarios_have_the_same_results_as_on_linux() {
    let mut wrong = Vec::new();
    for scenario in SCENARIOS {
        let (before, wanted) = (scenario.before(), scenario.wanted());
        let steps: Vec<&str> = wanted.iter().map(|wanted| wanted.step).collect();
        let mut found = Vec::new();

        let directory = tempfile::tempdir().unwrap();
        let mut native = Native::new(directory.path());
        native.play_all(&parse(&before));
        let results = native.play_all(&parse(&steps));
        let natively = wanted.iter().map(|wanted| (wanted.step, wanted.native.as_str()));
        found.extend(differences("native", natively, &results));
        let native_tree = tree(directory.path());
        let is_same = wanted.iter().all(|wanted| wanted.here == wanted.native);

        let mut trees = Vec::new();
        for way in WAYS {
            let (results, tree) = play_as(way, &before, &steps);
            let here = wanted.iter().map(|wanted| (wanted.step, wanted.here.as_str()));
            found.extend(differences(&format!("{way:?}"), here, &results));
            if is_same && tree != native_tree {
                found.push(format!("{way:?}: {tree:#?}, not {native_tree:#?}"));
            }
            trees.push(tree);
        }
        if trees.windows(2).any(|pair| pair[0] != pair[1]) {
            found.push(format!("{trees:#?}"));
        }
        if !found.is_empty() {
            wrong.push(format!("{}:\n  {}", scenario.name, found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
