//! Files exchanged with zarr-python: reads the arrays that it has written and the same values by lanecast, and writes them anew.
//!
//! In the directory are, for each name in `names`, an array `python/NAME`, its values before it was written (`NAME.src`) and what zarr-python
//! reads from it (`NAME.out`). Written are arrays `zarrs/NAME` of the same metadata and values.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zarrs::array::{Array, ArrayBytes};
use zarrs::filesystem::FilesystemStore;

type Anything = Box<dyn std::error::Error>;

fn open(dir: &Path) -> Result<Arc<FilesystemStore>, Anything> {
    Ok(Arc::new(FilesystemStore::new(dir)?))
}

fn main() -> Result<(), Anything> {
    zarrs_lanecast::register();
    let dir = PathBuf::from(std::env::args_os().nth(1).ok_or("which directory?")?);
    let names = fs::read_to_string(dir.join("names"))?;
    for name in names.lines() {
        let array = Array::open(open(&dir.join("python").join(name))?, "/")?;
        let found: ArrayBytes = array.retrieve_array_subset(&array.subset_all())?;
        if found.into_fixed()?.as_ref() != fs::read(dir.join(format!("{name}.out")))? {
            return Err(format!("{name}: other values than zarr-python reads").into());
        }
        let copy =
            Array::new_with_metadata(open(&dir.join("zarrs").join(name))?, "/", array.metadata().clone())?;
        copy.store_metadata()?;
        let values = fs::read(dir.join(format!("{name}.src")))?;
        copy.store_array_subset(&copy.subset_all(), ArrayBytes::from(values))?;
    }
    println!("{} arrays of zarr-python read, and written anew", names.lines().count());
    Ok(())
}
