use std::ffi::CStr;
use std::ptr::{null, null_mut};

use super::data::{diet_free_persistent_data, diet_use_data, pliant_diet_data_id};
use super::*;
use crate::boundary::tests::Initialized;

const CHAR: c_int = 0;
const INT: c_int = 2;
const DOUBLE: c_int = 5;

fn profile(name: &CStr, last: [c_int; 3]) -> *mut c_void {
    // SAFETY: the name is a string.
    unsafe { diet_profile_alloc(name.as_ptr(), last[0], last[1], last[2]) }
}

#[test]
fn numbers_and_arrays_go_and_come_back() {
    let _library = Initialized::new();
    let (mut n, mut v) = (2_i32, [5.0_f64, 6.0]);
    let vector = profile(c"vector", [0, 1, 1]);
    let succ = profile(c"succ", [0, 0, 1]);
    let (mut data, mut size, mut id) = (null_mut::<f64>(), 0, 0);
    let mut result = null_mut::<c_int>();
    // SAFETY: the data are what is set.
    unsafe {
        assert_eq!(diet_scalar_set(diet_parameter(vector, 0), (&raw mut n).cast(), 0, INT), 0);
        assert_eq!(diet_vector_set(diet_parameter(vector, 1), v.as_mut_ptr().cast(), 0, DOUBLE, 2), 0);
        assert_eq!(diet_call(vector), 0);
        // As the simulated function has it.
        assert_eq!(v, [1.0, 1.0]);
        let code =
            diet_vector_get(diet_parameter(vector, 1), (&raw mut data).cast(), null_mut(), &raw mut size);
        assert_eq!((code, data, size), (0, v.as_mut_ptr(), 2));
        assert_ne!(diet_free_data(diet_parameter(vector, 1)), 0, "it is memory of the program");

        assert_eq!(diet_scalar_set(diet_parameter(succ, 0), (&raw mut n).cast(), 0, INT), 0);
        assert_eq!(diet_scalar_set(diet_parameter(succ, 1), null_mut(), 1, INT), 0);
        assert_eq!(diet_call_async(succ, &raw mut id), 0);
        assert_eq!(diet_wait_and(&raw const id, 1), 0);
        assert_eq!(diet_scalar_get(diet_parameter(succ, 1), (&raw mut result).cast(), null_mut()), 0);
        assert_eq!(*result, 3);
        assert_eq!(diet_free_data(diet_parameter(succ, 1)), 0);
        assert_ne!(diet_free_data(diet_parameter(succ, 1)), 0);
    }
    assert_eq!((diet_profile_free(vector), diet_profile_free(succ)), (0, 0));
}

#[test]
fn a_matrix_is_stored_as_the_program_says() {
    let _library = Initialized::new();
    let copy = profile(c"double-matrix", [0, 1, 1]);
    // Two rows of three numbers, column by column.
    let (mut n, mut a) = (3_i32, [1.0_f64, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let (mut data, mut rows, mut columns, mut order) = (null_mut::<f64>(), 0, 0, 5);
    // SAFETY: the data are what is set.
    unsafe {
        assert_eq!(diet_scalar_set(diet_parameter(copy, 0), (&raw mut n).cast(), 0, INT), 0);
        assert_eq!(diet_matrix_set(diet_parameter(copy, 1), a.as_mut_ptr().cast(), 0, DOUBLE, 2, 3, 0), 0);
        assert_eq!(diet_call(copy), 0);
        assert_eq!(a, [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
        let argument = diet_parameter(copy, 1);
        let code = diet_matrix_get(
            argument,
            (&raw mut data).cast(),
            null_mut(),
            &raw mut rows,
            &raw mut columns,
            &raw mut order,
        );
        assert_eq!((code, data, rows, columns, order), (0, a.as_mut_ptr(), 2, 3, 0));
        // The signature has two rows.
        assert_eq!(diet_matrix_set(argument, a.as_mut_ptr().cast(), 0, DOUBLE, 3, 2, 1), 0);
        assert_ne!(diet_call(copy), 0);
    }
    assert_eq!(diet_profile_free(copy), 0);
}

/// A matrix column by column stays at the server, doubled, and is doubled again there.
#[test]
fn data_stay_at_the_server_and_are_used() {
    let _library = Initialized::new();
    let double = profile(c"double-matrix", [0, 1, 1]);
    let (mut n, mut a) = (3_i32, [1.0_f64, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let (mut mode, mut data) = (0, null_mut::<f64>());
    let argument = diet_parameter(double, 1);
    // SAFETY: the data are what is set; IDs are those of the library.
    unsafe {
        assert_eq!(diet_scalar_set(diet_parameter(double, 0), (&raw mut n).cast(), 1, INT), 0);
        assert_eq!(diet_matrix_set(argument, a.as_mut_ptr().cast(), 2, DOUBLE, 2, 3, 0), 0);
        assert!(pliant_diet_data_id(argument).is_null());
        assert_eq!(diet_call(double), 0);
        assert_eq!(a, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0], "DIET_PERSISTENT does not come back");
        let first = CStr::from_ptr(pliant_diet_data_id(argument)).to_owned();
        assert!(first.to_str().unwrap().starts_with("lyon/"), "{first:?}");

        // As input, known by its ID alone: what comes back has memory of its own, row by row.
        let again = profile(c"double-matrix", [0, 1, 1]);
        let argument = diet_parameter(again, 1);
        assert_eq!(diet_scalar_set(diet_parameter(again, 0), (&raw mut n).cast(), 0, INT), 0);
        assert_eq!(diet_use_data(argument, first.as_ptr()), 0);
        assert_eq!(diet_call(again), 0);
        assert_eq!(
            diet_matrix_get(
                argument,
                (&raw mut data).cast(),
                &raw mut mode,
                null_mut(),
                null_mut(),
                null_mut()
            ),
            0
        );
        assert_eq!((mode, std::slice::from_raw_parts(data, 6)), (0, &[4.0, 8.0, 12.0, 16.0, 20.0, 24.0][..]));
        assert_eq!(diet_free_data(argument), 0);

        // And with the memory of the program, where the result stays under another ID.
        assert_eq!(diet_matrix_set(argument, a.as_mut_ptr().cast(), 4, DOUBLE, 2, 3, 0), 0);
        assert_eq!(diet_use_data(argument, first.as_ptr()), 0);
        assert_eq!(diet_call(again), 0);
        assert_eq!(a, [4.0, 16.0, 8.0, 20.0, 12.0, 24.0]);
        let second = CStr::from_ptr(pliant_diet_data_id(argument)).to_owned();
        assert_ne!(first, second);

        assert_eq!(diet_free_persistent_data(first.as_ptr()), 1);
        assert_eq!(diet_free_persistent_data(c"nancy/00000000000000000000000000000000".as_ptr()), 0);
        assert_eq!(diet_use_data(argument, first.as_ptr()), 0);
        assert_eq!(diet_call(again), Code::NoData.number());
        assert_eq!(diet_profile_free(again), 0);
    }
    assert_eq!(diet_profile_free(double), 0);
}

#[test]
fn wrong_use_gives_codes() {
    let _library = Initialized::new();
    let mut n = 2_i32;
    let at: *mut c_void = (&raw mut n).cast();
    assert!(profile(c"succ", [1, 0, 1]).is_null() && profile(c"succ", [-2, 0, 1]).is_null());
    assert!(profile(c"succ", [0, 0, 64]).is_null());
    // SAFETY: a null pointer is allowed.
    assert!(unsafe { diet_profile_alloc(null(), 0, 0, 0) }.is_null());
    let succ = profile(c"succ", [0, 0, 1]);
    let (none, other) = (profile(c"no-such-function", [-1, -1, -1]), profile(c"succ", [0, 1, 1]));
    assert!(diet_parameter(succ, 2).is_null() && diet_parameter(succ, -1).is_null());
    let (first, second) = (diet_parameter(succ, 0), diet_parameter(succ, 1));
    // SAFETY: the functions are made for these pointers.
    unsafe {
        assert_ne!(diet_call(succ), 0, "nothing is set");
        assert_ne!(diet_scalar_set(null_mut(), at, 0, INT), 0);
        assert_ne!(diet_scalar_set(succ, at, 0, INT), 0, "a profile is no argument");
        assert_ne!(diet_scalar_set(first, null_mut(), 0, INT), 0);
        assert_ne!(diet_scalar_set(first, at, 5, INT), 0, "there is no such mode");
        assert_ne!(diet_scalar_set(first, at, -1, INT), 0);
        assert_eq!(diet_scalar_set(first, at, 2, INT), 0);
        assert_eq!(diet_scalar_set(second, null_mut(), 0, INT), 0);
        assert_ne!(diet_call(succ), 0, "numbers do not stay at servers");
        assert_ne!(diet_use_data(null_mut(), c"lyon/x".as_ptr()), 0);
        assert_ne!(diet_use_data(first, null()), 0);
        assert_ne!(diet_use_data(first, c"lyon/x".as_ptr()), 0);
        assert_ne!(diet_call(succ), 0, "a wrong ID leaves nothing set");
        assert!(pliant_diet_data_id(first).is_null() && pliant_diet_data_id(null_mut()).is_null());
        assert_eq!(diet_free_persistent_data(null()) + diet_free_persistent_data(c"lyon".as_ptr()), 0);
        assert_eq!(diet_scalar_set(second, null_mut(), 0, CHAR), 0);
        assert_ne!(diet_scalar_set(first, at, 0, 1), 0);
        assert_ne!(diet_vector_set(first, at, 0, INT, usize::MAX), 0);
        assert_ne!(diet_matrix_set(first, at, 0, INT, usize::MAX, 2, 0), 0);
        assert_ne!(diet_matrix_set(first, at, 0, INT, 1, 1, 2), 0);
        assert_eq!(diet_scalar_set(first, at, 0, CHAR), 0);
        assert_ne!(diet_call(succ), 0, "the function takes an int");
        assert_eq!(diet_scalar_set(first, at, 0, INT), 0);
        assert_ne!(diet_call(succ), 0, "the output is not set");
        assert_eq!(diet_scalar_set(second, at, 0, DOUBLE), 0);
        assert_ne!(diet_call(succ), 0, "the output is an int");
        let mut text = null_mut();
        assert_ne!(diet_string_get(first, &raw mut text, null_mut()), 0);
        assert_ne!(diet_scalar_get(first, null_mut(), null_mut()), 0);
        assert_eq!(diet_call(none), Code::FunctionNotFound.number());
        assert_ne!(diet_call(other), 0, "the directions differ");
        assert_ne!(diet_call(null_mut()), 0);
        assert_ne!(diet_call_async(succ, null_mut()), 0);
    }
    assert_eq!(diet_profile_free(succ), 0);
    assert_ne!(diet_profile_free(succ), 0);
    assert_eq!((diet_profile_free(none), diet_profile_free(other)), (0, 0));
    // SAFETY: as above; it is freed.
    unsafe {
        assert_ne!(diet_scalar_set(first, at, 0, INT), 0);
        assert_ne!(diet_call(succ), 0);
    }
    assert_eq!(n, 2);
}
