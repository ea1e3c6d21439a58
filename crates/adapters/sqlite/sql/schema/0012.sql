-- What became of a dead letter (status 0 open, 1 redriven, 2 dismissed; mark: the details as JSON),
-- and what lists filter by. A letter without a status was written by an earlier release: whoever
-- opens the file completes it. Domains count their open letters.
ALTER TABLE clinch_dead_letter ADD COLUMN status INTEGER CHECK (status BETWEEN 0 AND 2);
ALTER TABLE clinch_dead_letter ADD COLUMN mark TEXT;
ALTER TABLE clinch_dead_letter ADD COLUMN seq INTEGER;
ALTER TABLE clinch_dead_letter ADD COLUMN domain INTEGER;
ALTER TABLE clinch_dead_letter ADD COLUMN event_type INTEGER;
ALTER TABLE clinch_dead_letter ADD COLUMN biz_key TEXT;
ALTER TABLE clinch_dead_letter ADD COLUMN idem_key TEXT;
ALTER TABLE clinch_dead_letter ADD COLUMN code TEXT;
ALTER TABLE clinch_dead_letter ADD COLUMN fingerprint TEXT;
ALTER TABLE clinch_dead_letter ADD COLUMN late_ok INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clinch_domain ADD COLUMN dead_letters_open INTEGER NOT NULL DEFAULT 0
    CHECK (dead_letters_open >= 0);

CREATE INDEX clinch_dead_letter_by_status ON clinch_dead_letter (status, failed_at, op_id);
-- In the order of acceptance, which is that of every lane.
CREATE INDEX clinch_dead_letter_by_seq ON clinch_dead_letter (status, seq, op_id);
