-- The row stays, ended: the next owner's fence must be higher.
UPDATE clinch_lock SET until = clinch_now()
WHERE name = $1 AND owner = $2 AND clinch_now() < until
