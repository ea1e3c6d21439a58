SELECT max(op_id) FROM clinch_operation
