SELECT s.id, s.domain, d.name, s.event_type, s.rank
FROM clinch_stream AS s JOIN clinch_domain AS d ON d.id = s.domain
