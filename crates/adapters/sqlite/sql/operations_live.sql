WHERE o.need IN (1, 2)
