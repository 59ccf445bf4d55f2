-- How many members of multixacts there is room for in the files that are kept: each has 32 pages of groups
-- of four members, which take 20 bytes. Who may execute pg_ls_dir(text) may list them.
SELECT count(*) * 32 * (current_setting('block_size')::int / 20 * 4) AS members
FROM pg_ls_dir('pg_multixact/members')
