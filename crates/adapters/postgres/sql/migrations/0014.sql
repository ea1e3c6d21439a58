-- What became of a dead letter (status 0 open, 1 redriven, 2 dismissed; mark: the details as JSON),
-- and what lists filter by. A letter without a status was written by an earlier release: processes
-- of this one complete it. Domains count their open letters.
ALTER TABLE clinch_dead_letter
    ADD COLUMN status smallint CHECK (status BETWEEN 0 AND 2),
    ADD COLUMN mark text,
    ADD COLUMN seq bigint,
    ADD COLUMN domain text COLLATE "C",
    ADD COLUMN event_type text COLLATE "C",
    ADD COLUMN biz_key text COLLATE "C",
    ADD COLUMN idem_key text COLLATE "C",
    ADD COLUMN code text,
    ADD COLUMN fingerprint text,
    ADD COLUMN late_ok boolean NOT NULL DEFAULT false;
CREATE INDEX clinch_dead_letter_by_status ON clinch_dead_letter (status, failed_at, op_id);
-- In the order of acceptance, which is that of every lane.
CREATE INDEX clinch_dead_letter_by_seq ON clinch_dead_letter (status, seq, op_id);

ALTER TABLE clinch_domain ADD COLUMN dead_letters_open bigint NOT NULL DEFAULT 0;
ALTER TABLE clinch_delta ADD COLUMN dead_letters_open bigint NOT NULL DEFAULT 0;
