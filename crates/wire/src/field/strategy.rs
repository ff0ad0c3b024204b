//! Values of messages for property tests: the value of each field is drawn, then all are put together. The trees by which
//! proptest shrinks fields have one erased type, since tuples of all their types take minutes to compile.

use std::any::Any;
use std::fmt::{self, Debug};

use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::TestRunner;

use super::super::Malformed;
use super::FieldType;

/// How often the fields of a message are drawn again.
const DRAWS: usize = 64;

/// Puts a message together from its fields.
type Make<T> = fn(&mut Fields) -> Result<T, Malformed>;

/// Values of a message.
pub(crate) fn message_of<T: Debug + 'static>(make: Make<T>) -> BoxedStrategy<T> {
    Message(make).boxed()
}

struct Message<T>(Make<T>);

impl<T> Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Message")
    }
}

impl<T: Debug> Strategy for Message<T> {
    type Tree = MessageTree<T>;
    type Value = T;
    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let mut draw = || {
            let mut trees = Vec::new();
            let made = (self.0)(&mut Fields::Drawn { runner: &mut *runner, trees: &mut trees });
            made.map(|_| MessageTree { make: self.0, trees, shrinking: 0 })
        };
        // Fields that are joined may not fit together, such as two of which one is to be there.
        let mut drawn = draw();
        for _ in 0..DRAWS {
            if drawn.is_ok() {
                break;
            }
            drawn = draw();
        }
        drawn.map_err(|malformed| malformed.to_string().into())
    }
}

/// The fields of a message: at first they are drawn, later shrunk ones are put together again.
pub(crate) enum Fields<'a> {
    Drawn { runner: &'a mut TestRunner, trees: &'a mut Vec<Box<dyn FieldTree>> },
    Shrunk(std::slice::Iter<'a, Box<dyn FieldTree>>),
}

impl Fields<'_> {
    /// The value of the next field.
    pub(crate) fn next<F: FieldType>(&mut self, field: &F) -> F::Value {
        let value = match self {
            Fields::Drawn { runner, trees } => {
                let tree = field.strategy().new_tree(runner).expect("no value of a field is filtered");
                let value = FieldTree::current(&tree);
                trees.push(Box::new(tree));
                value
            }
            Fields::Shrunk(trees) => trees.next().expect("every field was drawn").current(),
        };
        *value.downcast().expect("fields are put together in the order in which they were drawn")
    }
}

/// A tree by which the value of a field shrinks.
pub(crate) trait FieldTree {
    fn current(&self) -> Box<dyn Any>;
    fn simplify(&mut self) -> bool;
    fn complicate(&mut self) -> bool;
}

impl<V: Debug + 'static> FieldTree for Box<dyn ValueTree<Value = V>> {
    fn current(&self) -> Box<dyn Any> {
        Box::new(ValueTree::current(self))
    }
    fn simplify(&mut self) -> bool {
        ValueTree::simplify(self)
    }
    fn complicate(&mut self) -> bool {
        ValueTree::complicate(self)
    }
}

/// A message that shrinks by one field after the other.
struct MessageTree<T> {
    make: Make<T>,
    trees: Vec<Box<dyn FieldTree>>,
    shrinking: usize,
}

impl<T: Debug> ValueTree for MessageTree<T> {
    type Value = T;
    fn current(&self) -> T {
        (self.make)(&mut Fields::Shrunk(self.trees.iter())).expect("a shrunk value is within the bounds")
    }
    fn simplify(&mut self) -> bool {
        while let Some(tree) = self.trees.get_mut(self.shrinking) {
            if tree.simplify() {
                if (self.make)(&mut Fields::Shrunk(self.trees.iter())).is_ok() {
                    return true;
                }
                self.complicate();
            }
            self.shrinking += 1;
        }
        false
    }
    fn complicate(&mut self) -> bool {
        self.trees.get_mut(self.shrinking).is_some_and(|tree| tree.complicate())
    }
}
