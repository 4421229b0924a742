//! Random changes have the same result natively and through a view.

use super::*;

/// Pseudo-random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Makes a random change to the tree in `root` and to another one.
fn act_at_random(numbers: &mut Numbers, root: &PathBuf, elsewhere: &dyn Files) {
    const NAMES: [&str; 4] = ["src", "a.txt", "old", "x"];
    let depth = 1 + numbers.below(3);
    let names: Vec<&str> = (0..depth).map(|_| NAMES[numbers.below(NAMES.len())]).collect();
    let place = names.join("/");
    let parent = root.join(&place).parent().unwrap().to_owned();
    let above = (1..depth).all(|end| {
        fs::symlink_metadata(root.join(names[..end].join("/"))).is_ok_and(|found| found.is_dir())
    });
    if !above || !parent.is_dir() {
        return;
    }
    let found = fs::symlink_metadata(root.join(&place)).ok();
    let is_file = found.as_ref().is_some_and(fs::Metadata::is_file);
    let both: [&dyn Files; 2] = [root, elsewhere];
    let number = numbers.below(1_000_000);
    for files in both {
        match (number % 5, &found) {
            (0 | 1, _) if is_file => files.put(&place, &format!("{number}\n")),
            (0, None) => files.put(&place, &format!("{number}\n")),
            (1 | 2, None) => files.make(&place),
            (3, None) => files.link("x", &place),
            (2, Some(_)) => files.remove(&place),
            (3, _) if is_file => files.allow_to_run(&place),
            (4, Some(_)) => {
                files.remove(&place);
                match number % 3 {
                    0 => files.put(&place, &format!("{number}\n")),
                    1 => files.make(&place),
                    _ => files.link("x", &place),
                }
            }
            _ => {}
        }
    }
}

#[test]
fn random_changes_have_the_same_result_as_natively() {
    for way in WAYS {
        for seed in 0..25 {
            let mut numbers = Numbers(seed);
            let (scene, native) = (Scene::new(), Scene::new());
            for _ in 0..2 {
                let (transaction, _) = begin(&scene.workspace);
                let overlay = transaction.overlay();
                for _ in 0..3 {
                    for _ in 0..numbers.below(12) {
                        act_at_random(&mut numbers, &native.root, &**overlay);
                    }
                    let view = scene.show(overlay, way);
                    let files = scene.files(&view);
                    for _ in 0..numbers.below(12) {
                        act_at_random(&mut numbers, &native.root, &*files);
                    }
                    keep(view, overlay).unwrap();
                }
                transaction.commit(Purpose::default()).unwrap();
                assert_eq!(tree(&scene.root), tree(&native.root), "{way:?}, seed {seed}");
            }
        }
    }
}
