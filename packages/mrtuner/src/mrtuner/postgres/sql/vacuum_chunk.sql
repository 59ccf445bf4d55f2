SELECT max_toast_chunk_size AS chunk FROM pg_catalog.pg_control_init()
