\set account random(1, 1000000)
INSERT INTO events (key, account, at, body)
    VALUES (gen_random_uuid(), :account, now(), repeat('payload ', 20));
