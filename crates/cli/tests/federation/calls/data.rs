//! Data that stay at the server after a call, and are arguments of later calls.

use std::collections::BTreeMap;

use pliant_calls::{Array, Value};
use pliant_client::calls::{CallEnd, CallError, CallOrder, Keep, StoredData};

use super::{compiled, doubles, int, started};

fn product(folder: &std::path::Path) -> String {
    let source =
        super::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/resident-service/product.c");
    format!(
        "[stored_data]\nbytes_per_user = 1000\ncount_per_user = 3\n[[service]]\nname = \"product\"\nresident = true\nspeedup = \"rigid:1\"\n\
         runtime = \"1s\"\nsignature = [\"in int n\", \"in double a[n][n]\", \"in double b[n][n]\", \"out double c[n][n]\"]\ncommand = [\"{}\"]\n\
         [[service]]\nname = \"sum\"\nsignature = [\"in int n\", \"in double v[n]\", \"out double sum\", \"inout double w[n]\"]\n\
         command = [\"/bin/sh\", \"-c\", \"echo $(cat v) > /dev/null; printf 7 > sum\", \"sum\", \"{{n}}\"]\nspeedup = \"rigid:1\"\n\
         runtime = \"1s\"\n[service.parameters.v]\nformat = \"text\"\n",
        compiled(&source, folder).display()
    )
}

fn matrix(elements: &[f64]) -> Option<Value> {
    Some(Value::Matrix { rows: 2, columns: 2, elements: Array::Double(elements.to_vec()) })
}

#[tokio::test(flavor = "multi_thread")]
async fn values_stay_at_the_server_and_are_named_in_later_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (mut federation, client) = started(&product(folder.path())).await;
    let service = client.typed_service("product", None).await.unwrap();
    let order = |a, b| CallOrder::new(service.clone(), vec![int(2), a, b, None]);
    // The first matrix stays as it came, the product stays and does not come back.
    let (a, b) = (matrix(&[1.0, 2.0, 3.0, 4.0]), matrix(&[2.0, 0.0, 0.0, 2.0]));
    let first = CallOrder { keep: [(1, Keep::new(false)), (3, Keep::new(false))].into(), ..order(a, b) };
    let call = client.start_call(&first).await.unwrap();
    let CallEnd::Completed(results) = client.wait_call(&call).await.unwrap() else { panic!("it completes") };
    assert_eq!(results, [None, None, None, None]);
    let data = call.stored_data();
    assert_eq!((data.len(), data[&1].server.as_str()), (2, "lyon"));
    // Also after the server was killed.
    federation.kill("lyon");
    federation.revive("lyon");
    let second =
        CallOrder { stored: [(1, data[&3].clone()), (2, data[&1].clone())].into(), ..order(None, None) };
    let CallEnd::Completed(results) = client.call(&second).await.unwrap() else { panic!("it completes") };
    assert_eq!(results[3], matrix(&[14.0, 20.0, 30.0, 44.0]));

    let list = client.stored_data(&"lyon".parse().unwrap()).await.unwrap();
    assert_eq!((list.data.len(), list.bytes_max, list.count_max), (2, 1000, 3));
    // Another user has other data, and does not find these.
    let bob = federation.client("bob");
    let refused = bob.call(&second).await.unwrap_err();
    assert!(matches!(refused, CallError::NoData(_)), "{refused:?}");
    assert!(refused.to_string().contains("`a`: expected data of this user at this server"), "{refused}");
    assert_eq!(bob.stored_data(&"lyon".parse().unwrap()).await.unwrap().data, []);
    bob.delete_data(&data[&3]).await.unwrap();
    // Deleted ones are gone, and no other server has them.
    let elsewhere = StoredData { server: "paris".parse().unwrap(), ..data[&1].clone() };
    let wrong = CallOrder { stored: [(1, data[&3].clone()), (2, elsewhere)].into(), ..order(None, None) };
    let refused = client.call(&wrong).await.unwrap_err();
    assert!(matches!(refused, CallError::StoredElsewhere { .. }), "{refused:?}");
    client.delete_data(&data[&3]).await.unwrap();
    let refused = client.call(&second).await.unwrap_err();
    assert!(matches!(refused, CallError::NoData(_)), "{refused:?}");

    // What does not fit is refused before anything is carried out.
    let zeros = |n: usize| {
        Some(Value::Matrix { rows: n as u64, columns: n as u64, elements: Array::Double(vec![0.0; n * n]) })
    };
    let mut large = CallOrder::new(service.clone(), vec![int(12), zeros(12), zeros(12), None]);
    large.keep = [(3, Keep::new(true))].into();
    let refused = client.call(&large).await.unwrap_err();
    assert!(matches!(refused, CallError::DataBounds(_)), "{refused:?}");
    assert!(refused.to_string().contains("expected at most 1000 bytes of data of a user"), "{refused}");
    drop(federation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_finds_and_leaves_data_too() {
    let folder = tempfile::tempdir().unwrap();
    let (federation, client) = started(&product(folder.path())).await;
    let service = client.typed_service("sum", None).await.unwrap();
    let order = |v, w| CallOrder::new(service.clone(), vec![int(2), v, None, w]);
    let keep: BTreeMap<usize, Keep> = [(1, Keep::new(false)), (3, Keep::new(true))].into();
    let first = CallOrder { keep, ..order(doubles(&[1.0, 2.0]), doubles(&[3.0, 4.0])) };
    let call = client.start_call(&first).await.unwrap();
    let CallEnd::Completed(results) = client.wait_call(&call).await.unwrap() else { panic!("it completes") };
    assert_eq!(results, [None, None, Some(Value::Double(7.0)), doubles(&[3.0, 4.0])]);
    let data = call.stored_data();
    let second = CallOrder { stored: data, ..order(None, None) };
    let CallEnd::Completed(results) = client.call(&second).await.unwrap() else { panic!("it completes") };
    assert_eq!(results[3], doubles(&[3.0, 4.0]));
    drop(federation);
}
