INSERT INTO clinch_delta (domain, pending, live, recorded, waiting, held, completed, failed)
SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
    $6::bigint[], $7::bigint[], $8::bigint[])
