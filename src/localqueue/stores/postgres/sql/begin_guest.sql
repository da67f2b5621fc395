-- In a session with a search_path that is not ours, so nothing here is looked for in it.
SELECT localqueue.lq_begin($1::double precision, $2::int[], $3::boolean[], '{}', $4::pg_catalog.text, $4::pg_catalog.text),
       pg_catalog.set_config('localqueue.guest', 'on', true)
