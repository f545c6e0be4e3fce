//! The replicated log over stores in memory and on files, driven without clock or socket.

mod cluster;
mod crashes;
mod files;
mod hostile;
mod killed;
mod lossy;
mod members;
mod nonsense;
mod normal;
mod reads;
mod snapshots;
