//! fio
