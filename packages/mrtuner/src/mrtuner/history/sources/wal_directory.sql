/*
help = "Size of pg_wal"
interval = "1min"

[gauges]
bytes = { unit = "bytes", help = "its size" }
files = { help = "segments and other files in it" }
*/
SELECT sum(size)::bigint AS bytes, count(*) AS files FROM pg_ls_waldir()
